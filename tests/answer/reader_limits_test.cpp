// Long and hostile answers in pieces.
#include "answer/streamed.h"

namespace vitrine::test {
namespace {

/// 100 kB in pieces of four characters: a second reading of all of the text with every piece would take a minute.
TEST(AnswerReader, LongAnswersAreReadOnce) {
  std::string words, lines, numbers = "[0";
  for (int i = 0; i < 10'000; ++i) {
    words += "word <" + std::to_string(i % 10) + "> ";
    lines += i % 2 == 0 ? "a = 'b' < 1\n" : "         \n";
    numbers += ", " + std::to_string(i);
  }
  const std::string quoted = OrderedJson(lines).dump();
  const std::vector<std::pair<std::string, std::string>> answers = {
      {kHermes, words + std::string(100'000, ' ') + "."},
      {thinking(""), "<think>" + words + "</think>" + words},
      {kHermes, "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": " + quoted + "}}\n</tool_call>"},
      {kIds, "[CALLS][{\"name\": \"get\", \"arguments\": {\"city\": " + quoted + "}, \"id\": \"x\"}]"},
      {kFields, "<call>get<k>city</k><v>" + lines + "</v><k>list</k><v>" + numbers + "]</v></call>"},
      {kKeyword, "<|calls|>[get(city=" + quoted + ", list=" + numbers + "])]<|/calls|>"}};
  for (const auto& [source, text] : answers) {
    const AnswerFormat format = learned(source);
    AnswerReader reader(format, "", tools());
    std::size_t n_handed_out = 0;
    for (std::size_t at = 0; at < text.size(); at += 4)
      n_handed_out += reader.append(text.substr(at, 4)).empty() ? 0 : 1;
    reader.finish();
    EXPECT_EQ(shown(reader.answer(), true), shown(answer::parse_answer(format, "", text, tools())));
    EXPECT_GT(n_handed_out, source == kIds || source == kKeyword ? 0U : 10'000U);
  }
}

/// Texts made of pieces of marks, most of them broken.
TEST(AnswerReader, RandomTextsAreTheSameHoweverTheyAreCut) {
  std::mt19937 random(1);
  int n_calls = 0;
  for (const auto& [source, example] : kinds()) {
    const AnswerFormat format = learned(source);
    for (int i = 0; i < 300; ++i) {
      std::string text;
      for (auto n = random() % 12; n > 0; --n) {
        const std::size_t at = random() % example.size();
        text += random() % 4 == 0 ? example.substr(0, at) : example.substr(at, 1 + random() % 40);
      }
      const AnswerDelta read = read_all_ways(format, "", text, tools());
      const ParsedAnswer parsed = answer::parse_answer(format, "", text, tools());
      n_calls += static_cast<int>(parsed.calls.size());
      if (!read.calls.empty()) continue;
      EXPECT_EQ(shown(read, true), shown(parsed)) << text;
    }
  }
  EXPECT_GT(n_calls, 100);
}

}  // namespace
}  // namespace vitrine::test
