// Calls of tools and their results in the messages of a chat.
#include <algorithm>

#include "serve/served.h"

namespace vitrine::test {
namespace {

class Messages : public RequestTest {};

TEST_F(Messages, HaveCallsAndResultsInTheFormThatTheTemplateReads) {
  ChatTemplates templates;
  templates.by_name["default"] =
      "{% for m in messages %}{{ m.role }} {{ m.content }}{% for c in m.tool_calls or [] %}<c>{{ c.function.name }} "
      "{{ c.function.arguments | tojson }}</c>{% endfor %}{% if m.role == 'tool' %}={{ m.name }}{% endif %};{% endfor "
      "%}"
      "{% if add_generation_prompt %}assistant {% endif %}";
  chat_.emplace(templates, *tokenizer_, ChatVariables{}, "test");
  ASSERT_TRUE(chat_->answers().calls) << chat_->answers().reason;
  const std::string messages = R"([{"role": "developer", "content": "d"},
      {"role": "assistant", "content": null, "refusal": "no", "audio": null, "tool_calls": [{"index": 0, "id": "i",
       "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
      {"role": "tool", "tool_call_id": "i", "content": [{"type": "text", "text": "rain"}]}])";
  EXPECT_EQ(chat("", messages).prompts[0].ids,
            ids_of(R"(system d;assistant no<c>f {"a": 1}</c>;tool rain=f;assistant )", SpecialTokens::none));
  const std::string old = R"([{"role": "assistant", "function_call": {"name": "f", "arguments": {"a": 1}}},
      {"role": "function", "name": "f", "content": "rain"}])";
  EXPECT_EQ(chat("", old).prompts[0].ids,
            ids_of(R"(assistant <c>f {"a": 1}</c>;tool rain=f;assistant )", SpecialTokens::none));
}

/// What a conversation spells is no special token, also if the tokenizer adds its own.
TEST_F(Messages, SpecialTokensAreThoseOfTheTemplateAndTheTokenizer) {
  const std::string messages = R"([{"role": "user", "content": "<|endoftext|>"}])";
  const std::vector<std::int32_t> plain = chat("", messages).prompts[0].ids;
  const std::vector<std::int32_t> added = chat(R"("add_special_tokens": true)", messages).prompts[0].ids;
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 0), 0);
  const std::vector<std::int32_t> own = ids_of("");
  EXPECT_EQ(std::count(added.begin(), added.end(), 0), std::count(own.begin(), own.end(), 0));
  EXPECT_EQ(added.size(), plain.size() + own.size());
}

TEST_F(Messages, CallsOfTheWrongFormAreRefused) {
  const auto expect = [&](const std::string& calls, const std::string& param, const std::string& part = "") {
    SCOPED_TRACE(calls);
    expect_refusal([&] { chat("", R"([{"role": "assistant", "tool_calls": )" + calls + "}]"); }, 400, param, {part});
  };
  expect("5", "messages[0].tool_calls", "a list of calls");
  expect("[{}]", "messages[0].tool_calls[0].function");
  expect(R"([{"function": {}}])", "messages[0].tool_calls[0].function.name");
  expect(R"([{"function": {"name": "f", "arguments": 5}}])", "messages[0].tool_calls[0].function.arguments");
  expect(R"([{"function": {"name": "f", "argument": ""}}])", "messages[0].tool_calls[0].function.argument",
         "did you mean arguments?");
}

}  // namespace
}  // namespace vitrine::test
