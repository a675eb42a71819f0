// The public interface: adapters and conversations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/temp_folder.h"
#include "checkpoint/adapters/create.h"
#include "checkpoint/adapters/writer.h"
#include "support/data.h"
#include "support/run.h"
#include "vitrine/vitrine.h"

namespace vitrine::test {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::HasSubstr;

std::string default_folder() { return source_dir() + "/models/default"; }

/// Writes an adapter that changes every map of the default model.
void write_adapter(const std::string& folder) {
  const Checkpoint base = load_checkpoint(default_folder());
  NewAdapter options;
  options.rank = 2;
  const WritableAdapter made = new_adapter(base, options, 3);
  for (const AdapterMatrix& matrix : made.matrices) {
    for (std::int64_t i = 0; i < matrix.param->shape.count(); ++i) {
      matrix.values[i] = 0.05F * static_cast<float>(i * 7 % 11 - 5);
    }
  }
  std::filesystem::create_directory(folder);
  write_peft_adapter(folder, *made.adapter, base, {});
}

TEST(LibraryAdapters, ChangeEveryCall) {
  const TempFolder folder;
  const std::string path = folder / "adapter";
  write_adapter(path);
  const auto open = [&](std::vector<OpenAdapter> adapters) {
    return LanguageModel::open(default_folder(), {.threads = 2, .adapters = std::move(adapters)});
  };
  const LanguageModel base = open({}), with = open({{path}}), none = open({{path, 0}}), twice = open({{path}, {path}});
  const Ids ids = base.ids("Once upon a time");
  const std::vector<float> logits = with.logits(ids);
  EXPECT_NE(logits, base.logits(ids));
  EXPECT_EQ(none.logits(ids), base.logits(ids)) << "a scale of zero changes no bit";

  const std::vector<float> last(logits.end() - with.vocab_size(), logits.end());
  Session session = with.session();
  session.feed(ids);
  EXPECT_TRUE(std::ranges::equal(session.logits(), last));
  EXPECT_EQ(with.generate(ids, {.max_tokens = 1, .temperature = 0}).ids.at(0),
            std::max_element(last.begin(), last.end()) - last.begin());
  EXPECT_EQ(with.next(ids, 1).at(0).id, with.predict(ids, 1).back().at(0).id);
  const std::vector<SiteValue> traced = with.trace(ids, {.sites = {"hook_logits"}, .writes = {}});
  EXPECT_EQ(traced.at(0).values, logits);

  const std::vector<float> sum = twice.logits(ids), scaled = open({{path, 2}}).logits(ids);
  for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], scaled[i], 1e-3F * (1 + std::abs(sum[i])));
}

TEST(LibraryAdapters, WhatDoesNotFitIsRefused) {
  const TempFolder folder;
  const std::string path = folder / "adapter";
  write_adapter(path);
  const auto open = [](const std::string& model, OpenAdapter adapter) {
    LanguageModel::open(model, {.adapters = {std::move(adapter)}});
  };
  EXPECT_THAT(message_of<BadInput>([&] { open(default_folder(), {"/no/such/adapter"}); }),
              HasSubstr("/no/such/adapter"));
  EXPECT_THAT(message_of<BadInput>([&] { open(default_folder(), {path, std::nan("")}); }), HasSubstr("finite"));
  EXPECT_THROW(open(goldens() + "/gpt2", {path}), BadCheckpoint);
}

/// The default model with a template in the style of ChatML, whose end of a turn is the model's own token.
class LibraryChat : public testing::Test {
 protected:
  LanguageModel open(const std::string& source) {
    write_file(folder_ / "chat.jinja", source);
    return LanguageModel::open(default_folder(), {.threads = 1, .chat_template = folder_ / "chat.jinja"});
  }

  TempFolder folder_;
};

constexpr const char* kTemplate =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

TEST_F(LibraryChat, IsTheTextOfTheTemplate) {
  const LanguageModel model = open(kTemplate);
  const Chat chat{.messages = {{"system", "Be brief."}, {"user", "Hi"}}};
  const std::string text = "system:Be brief.<|endoftext|>user:Hi<|endoftext|>assistant:";
  EXPECT_EQ(model.render(chat), text);
  EXPECT_EQ(model.ids(chat), model.tokenizer().encode(text, SpecialTokens::written));
}

TEST_F(LibraryChat, SpecialTokensInMessagesAreText) {
  const LanguageModel model = open(kTemplate);
  const Ids ids = model.ids(Chat{.messages = {{"user", "<|endoftext|>"}}});
  EXPECT_NE(ids, model.tokenizer().encode("user:<|endoftext|><|endoftext|>assistant:", SpecialTokens::written));
  const std::int32_t end = model.tokenizer().encode("<|endoftext|>", SpecialTokens::written).at(0);
  EXPECT_EQ(std::ranges::count(ids, end), 1);
}

TEST_F(LibraryChat, TemplatesReadFieldsToolsVariablesAndTheTime) {
  const LanguageModel model = open(
      "{{ messages[0].name }}/{{ messages[0].content }}/{{ tools[0].function.name }}/{{ style.tone }}/"
      "{{ strftime_now('%Y-%m') }}");
  const Chat chat{.messages = {{"user", "Hi \xF0\x9F\xA6\x99", R"({"name": "Ann"})"}},
                  .tools = R"([{"type": "function", "function": {"name": "look"}}])",
                  .variables = {{"style", R"({"tone": "dry"})"}},
                  .now = "2026-03-04"};
  EXPECT_EQ(model.render(chat), "Ann/Hi \xF0\x9F\xA6\x99/look/dry/2026-03");
}

TEST_F(LibraryChat, AnAnswerContinuesItsIds) {
  const LanguageModel model = open(kTemplate);
  const GenerateOptions options{.max_tokens = 12, .seed = 3};
  const Chat chat{.messages = {{"user", "Tell me a story."}}};
  std::string streamed;
  GenerateOptions streams = options;
  streams.on_text = [&](const std::string& text) { streamed += text; };
  const GenerateResult answer = model.generate(chat, streams);
  EXPECT_EQ(answer.ids, model.generate(model.ids(chat), options).ids);
  EXPECT_EQ(streamed, answer.text);
  EXPECT_EQ(model.next(chat, 1).at(0).id, model.next(model.ids(chat), 1).at(0).id);
}

/// The model's own texts end at another token, and each draws the end of an answer at once.
TEST_F(LibraryChat, AnAnswerEndsWhereTheTemplateEndsIt) {
  const std::string copy = folder_ / "model";
  std::filesystem::copy(default_folder(), copy, std::filesystem::copy_options::recursive);
  std::string config = read_file(copy + "/config.json");
  const std::string eos = "\"eos_token_id\": 0";
  ASSERT_NE(config.find(eos), config.npos);
  write_file(copy + "/config.json", config.replace(config.find(eos), eos.size(), "\"eos_token_id\": 5"));
  write_file(copy + "/chat_template.jinja", kTemplate);
  const LanguageModel model = LanguageModel::open(copy, {.threads = 1});
  const std::int32_t end = model.tokenizer().encode("<|endoftext|>", SpecialTokens::written).at(0);
  GenerateOptions options{.max_tokens = 4, .temperature = 0};
  options.watch = {{"hook_logits"}, [&](const std::string&, std::span<float> logits, std::span<const std::int64_t>) {
                     logits[static_cast<std::size_t>(end)] = 1e4F;
                   }};
  const Chat chat{.messages = {{"user", "Hi"}}};
  const GenerateResult answer = model.generate(chat, options);
  EXPECT_EQ(answer.ids, Ids{});
  EXPECT_EQ(answer.finish_reason, FinishReason::stop);
  EXPECT_EQ(model.generate(model.ids(chat), options).ids, Ids(4, end)) << "a text does not end there";
}

TEST_F(LibraryChat, ErrorsSayWhatIsWrong) {
  const Chat chat{.messages = {{"user", "Hi"}}};
  const LanguageModel plain = LanguageModel::open(default_folder(), {.threads = 1});
  EXPECT_THAT(message_of<BadInput>([&] { plain.render(chat); }), HasSubstr("chat_template"));
  const LanguageModel without_tokenizer = LanguageModel::open(goldens() + "/gpt2");
  EXPECT_THAT(message_of<BadInput>([&] { without_tokenizer.generate(chat); }), HasSubstr("tokenizer"));
  const LanguageModel refuses = open("{{ raise_exception('no system prompt here') }}");
  EXPECT_THAT(message_of<BadInput>([&] { refuses.ids(chat); }), HasSubstr("no system prompt here"));
  const LanguageModel model = open(kTemplate);
  EXPECT_THROW(model.render({.messages = {{"user", "Hi", "{"}}}), BadInput);
  EXPECT_THROW(model.render({.messages = {{"user", "Hi", "[1]"}}}), BadInput);
  EXPECT_THROW(model.render({.messages = chat.messages, .tools = "nope"}), BadInput);
  EXPECT_THROW(model.render({.messages = chat.messages, .variables = {{"x", "nope"}}}), BadInput);
  EXPECT_THROW(model.render({.messages = chat.messages, .now = "yesterday"}), BadInput);
  const LanguageModel broken = open("{% for %}");
  EXPECT_THROW(broken.render(chat), BadInput);
  EXPECT_EQ(broken.generate("Hi", {.max_tokens = 2}).ids.size(), 2U) << "other prompts need no template";
}

}  // namespace
}  // namespace vitrine::test
