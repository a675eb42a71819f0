// The samples of conversations: against transformers, and the rules that it has no part in.
#include "conversation/encoder.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/temp_folder.h"
#include "conversation/sample_file.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Mask = ConversationOptions::Mask;
using Learn = ConversationOptions::Learn;

constexpr const char* kChatml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class Encoder : public testing::Test {
 protected:
  void SetUp() override {
    if (data_.empty()) GTEST_SKIP() << "VITRINE_DATA has no tuning/masks";
    model_.tokenizer = load_tokenizer(data_ + "/tokenizer");
    model_.templates.by_name["default"] = kChatml;
    model_.templates.special_tokens = {{"eos_token", "<|im_end|>"}};
    model_.where = "model";
    options_.now = TemplateClock::parse("2026-01-02T03:04:05");
  }
  std::vector<Sample> encode(const std::string& line) const {
    const ConversationLine parsed = parse_conversation(line, "file, line 1");
    return ConversationEncoder(model_, options_).encode(parsed.conversations.front(), "file, line 1");
  }
  /// The parts that are learned, as text with the pieces of special tokens.
  std::vector<std::string> learned(const Sample& sample) const {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < sample.ids.size(); ++i) {
      if (sample.learned[i] == 0) continue;
      if (i == 0 || sample.learned[i - 1] == 0) parts.emplace_back();
      const std::string bytes = model_.tokenizer->bytes(sample.ids[i]);
      parts.back() += bytes.empty() ? model_.tokenizer->piece(sample.ids[i]) : bytes;
    }
    return parts;
  }
  std::vector<std::string> learned(const std::string& line) const { return learned(encode(line).front()); }

  const std::string data_ = outside_data("tuning/masks");
  ConversationModel model_;
  ConversationOptions options_;
};

/// What a golden says of a mask: samples, or {"error"}.
Json samples_or_error(const ConversationModel& model, const ConversationOptions& options, const std::string& line) {
  try {
    Json samples = Json::array();
    const ConversationLine parsed = parse_conversation(line, "line");
    for (const Sample& s : ConversationEncoder(model, options).encode(parsed.conversations.front(), "line")) {
      samples.push_back({{"ids", s.ids}, {"learned", s.learned}});
    }
    return samples;
  } catch (const BadInput& e) {
    return {{"error", e.what()}};
  }
}

TEST_F(Encoder, EqualsTheGoldens) {
  const auto file = MappedFile::open(data_ + "/masks.jsonl");
  int n = 0;
  for_each_line(data_ + "/masks.jsonl", [&](std::string_view line, const std::string& where, std::int64_t) {
    const Json golden = Json::parse(line);
    ConversationModel model = model_;
    const std::string path = data_ + "/../templates/" + golden["template"].get<std::string>() + ".jinja";
    model.templates.by_name["default"] = std::string(MappedFile::open(path)->text());
    model.templates.special_tokens = {{"bos_token", golden["bos"]}, {"eos_token", golden["eos"]}};
    for (const auto& [name, mask] : {std::pair{"marks", Mask::marks}, {"difference", Mask::difference}}) {
      if (!golden.contains(name)) continue;
      ConversationOptions options = options_;
      options.mask = mask;
      const Json found = samples_or_error(model, options, std::string(line));
      ++n;
      if (golden[name].is_array()) {
        EXPECT_TRUE(found == golden[name]) << where << " " << name;
      } else {
        ASSERT_TRUE(found.contains("error")) << where;
        EXPECT_THAT(found["error"].get<std::string>(), HasSubstr(golden[name]["error"].get<std::string>()));
      }
    }
  });
  EXPECT_EQ(n, 96);
}

TEST_F(Encoder, FormatsAreOneConversation) {
  const std::string messages =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})";
  const Sample expected = encode(messages).front();
  EXPECT_THAT(learned(expected), ElementsAre("Hello<|im_end|>"));
  for (const char* line :
       {R"({"prompt": "Hi", "completion": "Hello"})",
        R"({"prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant", "content": "Hello"}]})",
        R"({"instruction": "Hi", "input": "", "output": "Hello"})",
        R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]})"}) {
    SCOPED_TRACE(line);
    const Sample found = encode(line).front();
    EXPECT_EQ(found.ids, expected.ids);
    EXPECT_EQ(found.learned, expected.learned);
  }
}

TEST_F(Encoder, IdsAndTextNeedNoTemplate) {
  model_.templates.by_name.clear();
  const Sample ids = encode(R"({"input_ids": [7, 8, 9], "labels": [-100, 8, -100]})").front();
  EXPECT_THAT(ids.ids, ElementsAre(7, 8, 9));
  EXPECT_THAT(ids.learned, ElementsAre(0, 1, 0));
  EXPECT_THAT(learned(R"({"text": "One day"})"), ElementsAre("<s>One day<|im_end|>"));
  EXPECT_THAT(learned(R"({"prompt": "One", "completion": " day"})"), ElementsAre(" day<|im_end|>"));
  EXPECT_THROW(encode(R"({"messages": [{"role": "user", "content": "Hi"}]})"), BadInput);
}

TEST_F(Encoder, LearnSaysWhat) {
  const std::string line =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
          {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})";
  EXPECT_THAT(learned(line), ElementsAre("b<|im_end|>", "d<|im_end|>"));
  options_.learn = Learn::last;
  EXPECT_THAT(learned(line), ElementsAre("d<|im_end|>"));
  options_.learn = Learn::all;
  EXPECT_EQ(encode(line).front().n_learned() + 1, static_cast<std::int64_t>(encode(line).front().ids.size()));
}

TEST_F(Encoder, APromptIsNotLearned) {
  const std::string line =
      R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                     {"role": "user", "content": "c"}],
          "completion": [{"role": "assistant", "content": "d"}]})";
  EXPECT_THAT(learned(line), ElementsAre("d<|im_end|>"));
  model_.templates.by_name["default"] =
      "{% for m in messages %}<|im_start|>{% if m.role == 'assistant' %}{%- generation -%}{{ m.content }}<|im_end|>"
      "{%- endgeneration -%}{% else %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}";
  EXPECT_THAT(learned(line), ElementsAre("d<|im_end|>"));
}

TEST_F(Encoder, MarksNeedATemplateThatHasThem) {
  options_.mask = Mask::marks;
  EXPECT_THROW(ConversationEncoder(model_, options_), BadInput);
}

TEST_F(Encoder, TheTemplateShowsTheEndOfATurn) {
  model_.templates.special_tokens.clear();
  const ConversationEncoder encoder(model_, options_);
  EXPECT_THAT(encoder.end_ids(), ElementsAre(4));  // <|im_end|>
}

TEST_F(Encoder, LinesThatCannotBeLearnedFromAreNamed) {
  const TempFolder folder;
  const std::string path = folder / "f.jsonl";
  const std::string good =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})";
  const ConversationEncoder encoder(model_, options_);
  const auto expect_line_3 = [&](const std::string& bad, const SampleFileOptions& options, const char* message) {
    SCOPED_TRACE(bad);
    write_file(path, good + "\n\n" + bad + "\n");
    try {
      read_samples(path, encoder, options);
      ADD_FAILURE() << "no error";
    } catch (const BadInput& e) {
      EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("f.jsonl, line 3"), HasSubstr(message)));
    }
  };
  expect_line_3(R"({"messages": [{"role": "user", "content": "Hi"}]})", {}, "nothing to learn");
  expect_line_3(R"({"messages": [)", {}, "line 3");
  expect_line_3("[1]", {}, "JSON object");
  expect_line_3(R"({"question": "Hi"})", {}, "none of these keys");
  expect_line_3(R"({"input_ids": [1, 2], "labels": [1, 3]})", {}, "labels");
  expect_line_3(R"({"input_ids": [1, 999999], "labels": [1, 999999]})", {}, "vocabulary");
  expect_line_3(R"({"prompt": "a", "chosen": "b", "rejected": "c"})", {}, "a pair of answers");
  std::string longer;
  for (int i = 0; i < 40; ++i) longer += "Hello ";
  expect_line_3(R"({"prompt": "a", "completion": ")" + longer + "\"}", {false, 30, TooLong::refuse}, "too_long");
  EXPECT_EQ(read_samples(path, encoder, {false, 30, TooLong::drop}).n_dropped, 1);
  const SampleFile cut = read_samples(path, encoder, {false, 30, TooLong::cut});
  ASSERT_EQ(cut.lines.size(), 2u);
  EXPECT_EQ(cut.lines[1].front().ids.size(), 30u);
}

TEST_F(Encoder, PairsShareTheirPrompt) {
  const TempFolder folder;
  const std::string path = folder / "f.jsonl";
  const ConversationEncoder encoder(model_, options_);
  const std::string user = R"({"role": "user", "content": "Hi"})";
  const std::string a = R"({"role": "assistant", "content": "Hello"})", b = R"({"role": "assistant", "content": "No"})";
  for (const std::string& line : {R"({"prompt": [)" + user + R"(], "chosen": [)" + a + R"(], "rejected": [)" + b + "]}",
                                  R"({"chosen": [)" + user + "," + a + R"(], "rejected": [)" + user + "," + b + "]}",
                                  std::string(R"({"prompt": "Hi", "chosen": "Hello", "rejected": "No"})")}) {
    SCOPED_TRACE(line);
    write_file(path, line);
    const SampleFile file = read_samples(path, encoder, {true, 0, TooLong::refuse});
    ASSERT_EQ(file.lines.size(), 1u);
    ASSERT_EQ(file.lines[0].size(), 2u);
    EXPECT_THAT(learned(file.lines[0][0]), ElementsAre("Hello<|im_end|>"));
    EXPECT_THAT(learned(file.lines[0][1]), ElementsAre("No<|im_end|>"));
  }
  write_file(path, R"({"prompt": [7], "chosen": [8, 4], "rejected": [9, 4]})");
  const SampleFile file = read_samples(path, encoder, {true, 0, TooLong::refuse});
  EXPECT_THAT(file.lines[0][1].ids, ElementsAre(7, 9, 4));
  EXPECT_THAT(file.lines[0][1].learned, ElementsAre(0, 1, 1));
}

}  // namespace
}  // namespace vitrine::test
