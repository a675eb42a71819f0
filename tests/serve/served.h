// A served model for tests of requests: the default model's tokenizer, and a chat template.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "serve/completion_request.h"
#include "serve/request_fields.h"
#include "serve/served_model.h"
#include "support/data.h"

namespace vitrine::test {

class ServedModelTest : public testing::Test {
 protected:
  ServedModelTest() : tokenizer_(load_tokenizer(source_dir() + "/models/default")) {
    ChatTemplates templates;
    templates.by_name["default"] =
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}";
    chat_.emplace(templates, *tokenizer_, ChatVariables{}, "test");
    model_.names = {"default", "alias"};
    model_.vocab_size = tokenizer_->vocab_size();
    model_.max_seq_len = 512;
    model_.tokenizer = tokenizer_.get();
    model_.templates = templates;
    model_.chat = &*chat_;
    model_.defaults.bos = tokenizer_->bos();
    model_.defaults.stop_ids = {0};
    model_.defaults.constraints = std::make_shared<constrain::ConstraintCache>(*tokenizer_);
    model_.chat_stop_ids = {0, 7};
  }

  /// A template with a reasoning, calls and a switch.
  void use_agents_template() {
    ChatTemplates templates;
    templates.by_name["default"] =
        "{% for t in tools or [] %}T{{ t | tojson }}{% endfor %}{% for m in messages %}{{ m.role }} "
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}<c>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
        "{{ c.function.arguments | tojson }}}</c>{% endfor %};{% endfor %}"
        "{% if add_generation_prompt %}assistant {% if enable_thinking is defined and not enable_thinking %}"
        "<think></think>{% endif %}{% endif %}";
    chat_.emplace(templates, *tokenizer_, ChatVariables{}, "test");
    model_.templates = templates;
    ASSERT_TRUE(chat_->answers().calls) << chat_->answers().reason;
  }
  std::vector<std::int32_t> ids_of(const std::string& text, SpecialTokens policy = SpecialTokens::apply) const {
    return tokenizer_->encode(text, policy);
  }
  /// Expects a RequestError of this status and parameter, whose message contains every one of `parts`.
  template <class F>
  static void expect_refusal(F&& f, int status, const std::string& param, const std::vector<std::string>& parts = {}) {
    try {
      f();
      ADD_FAILURE() << "expected an error of " << param;
    } catch (const RequestError& e) {
      const Json error = e.to_json()["error"];
      EXPECT_EQ(e.kind().status, status) << e.what();
      EXPECT_EQ(error["param"], param.empty() ? Json() : Json(param)) << e.what();
      EXPECT_EQ(error["message"], e.what());
      for (const std::string& part : parts) EXPECT_THAT(std::string(e.what()), testing::HasSubstr(part));
    }
  }

  const std::unique_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatFormat> chat_;
  ServedModel model_;
};

/// Requests for texts with fields in addition to the prompt or the messages.
class RequestTest : public ServedModelTest {
 protected:
  CompletionRequest completion(const std::string& fields, const std::string& prompt = R"("Once upon")") const {
    return parse_completion(model_, R"({"prompt": )" + prompt + (fields.empty() ? "" : ", " + fields) + "}", 99);
  }
  CompletionRequest chat(const std::string& fields,
                         const std::string& messages = R"([{"role": "user", "content": "Hi"}])") const {
    return parse_chat(model_, R"({"messages": )" + messages + (fields.empty() ? "" : ", " + fields) + "}", 99);
  }
  void expect_completion_error(const std::string& fields, const std::string& param,
                               const std::string& part = "") const {
    SCOPED_TRACE(fields);
    expect_refusal([&] { completion(fields); }, 400, param, {part});
  }
  void expect_chat_error(const std::string& fields, const std::string& param, const std::string& part = "") const {
    SCOPED_TRACE(fields);
    expect_refusal([&] { chat(fields); }, 400, param, {part});
  }
};

}  // namespace vitrine::test
