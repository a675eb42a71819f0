// Answers read in pieces, and compared with what parse_answer() finds in the whole text.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "answer/answers.h"
#include "answer/parse.h"
#include "answer/reader.h"

namespace vitrine::test {

using answer::AnswerDelta;
using answer::AnswerReader;
using answer::ParsedAnswer;

/// The characters of a text.
inline std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> all;
  for (const char c : text) {
    if (all.empty() || (static_cast<unsigned char>(c) & 0xC0) != 0x80) all.emplace_back();
    all.back() += c;
  }
  return all;
}

/// The text in pieces of 1 to 9 characters.
inline std::vector<std::string> random_pieces(std::string_view text, std::mt19937& random) {
  std::vector<std::string> pieces;
  std::size_t left = 0;
  for (const std::string& c : characters(text)) {
    if (left == 0) {
      pieces.emplace_back();
      left = 1 + random() % 9;
    }
    pieces.back() += c;
    --left;
  }
  return pieces;
}

struct Streamed {
  AnswerDelta all;                ///< All deltas put together.
  std::vector<AnswerDelta> each;  ///< One for each piece, and one for the end.
};

inline Streamed streamed(const AnswerFormat& format, const std::string& prompt, const std::vector<std::string>& pieces,
                         const OrderedJson& tools) {
  AnswerReader reader(format, prompt, tools);
  Streamed read;
  const auto add = [&](AnswerDelta delta) {
    read.all.content += delta.content;
    read.all.reasoning += delta.reasoning;
    for (const AnswerDelta::Call& call : delta.calls) {
      EXPECT_EQ(call.begins, call.index == read.all.calls.size());
      EXPECT_EQ(call.begins, !call.name.empty());
      EXPECT_FALSE(call.arguments.empty());
      if (call.begins) read.all.calls.push_back({call.index, call.id, call.name, "", true});
      read.all.calls.back().arguments += call.arguments;
    }
    read.each.push_back(std::move(delta));
  };
  for (const std::string& piece : pieces) add(reader.append(piece));
  add(reader.finish());
  EXPECT_TRUE(reader.finish().empty());
  EXPECT_EQ(reader.answer().content, read.all.content);
  EXPECT_EQ(reader.answer().calls.size(), read.all.calls.size());
  return read;
}

/// An answer as text, to compare: arguments by their values, or as they are spelled.
inline std::string shown(const AnswerDelta& answer, bool by_value) {
  std::string text = "[" + answer.reasoning + "][" + answer.content + "]";
  for (const auto& call : answer.calls) {
    const OrderedJson value = by_value ? OrderedJson::parse(call.arguments, nullptr, false) : OrderedJson();
    text += "\n" + call.id + " " + call.name + " " + (value.is_object() ? value.dump() : call.arguments);
  }
  return text;
}

inline std::string shown(const ParsedAnswer& answer) {
  std::string text = "[" + answer.reasoning.value_or("") + "][" + answer.content + "]";
  for (const auto& call : answer.calls) text += "\n" + call.id + " " + call.name + " " + call.arguments.dump();
  return text;
}

/// Reads the text whole, by characters and in random pieces. All are the same, which is returned.
inline AnswerDelta read_all_ways(const AnswerFormat& format, const std::string& prompt, const std::string& text,
                                 const OrderedJson& tools) {
  const Streamed whole = streamed(format, prompt, {text}, tools);
  EXPECT_EQ(shown(streamed(format, prompt, characters(text), tools).all, false), shown(whole.all, false)) << text;
  std::mt19937 random(static_cast<unsigned>(text.size()));
  for (int i = 0; i < 3; ++i) {
    const std::vector<std::string> pieces = random_pieces(text, random);
    EXPECT_EQ(shown(streamed(format, prompt, pieces, tools).all, false), shown(whole.all, false)) << text;
  }
  return whole.all;
}

inline AnswerDelta expect_as_parsed(const AnswerFormat& format, const std::string& prompt, const std::string& text,
                                    const OrderedJson& offered) {
  AnswerDelta read = read_all_ways(format, prompt, text, offered);
  EXPECT_EQ(shown(read, true), shown(answer::parse_answer(format, prompt, text, offered))) << text;
  return read;
}

/// Cuts the text at every `step`-th character. What has been handed out at a cut is a beginning of what comes later.
inline void expect_beginnings(const AnswerFormat& format, const std::string& prompt, const std::string& text,
                              const OrderedJson& offered, std::size_t step = 1) {
  const AnswerDelta whole = streamed(format, prompt, {text}, offered).all;
  std::string part;
  std::size_t n = 0;
  for (const std::string& c : characters(text)) {
    part += c;
    if (++n % step != 0) continue;
    const Streamed cut = streamed(format, prompt, {part}, offered);
    AnswerReader reader(format, prompt, offered);
    const AnswerDelta before_end = reader.append(part);
    EXPECT_TRUE(whole.content.starts_with(before_end.content)) << part << "|" << before_end.content;
    EXPECT_TRUE(whole.reasoning.starts_with(before_end.reasoning)) << part << "|" << before_end.reasoning;
    if (cut.all.calls.empty()) {
      EXPECT_EQ(shown(cut.all, true), shown(answer::parse_answer(format, prompt, part, offered))) << part;
    }
    ASSERT_LE(cut.all.calls.size(), whole.calls.size());
    for (std::size_t i = 0; i < cut.all.calls.size(); ++i) {
      EXPECT_EQ(cut.all.calls[i].name, whole.calls[i].name);
      EXPECT_TRUE(whole.calls[i].arguments.starts_with(cut.all.calls[i].arguments))
          << part << "|" << cut.all.calls[i].arguments;
    }
  }
}

/// Templates of each kind, and an answer with two calls.
inline const std::vector<std::pair<std::string, std::string>>& kinds() {
  static const std::vector<std::pair<std::string, std::string>> kKinds = {
      {kHermes,
       "Well.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"a\\\"b\", \"days\": 2}}\n</tool_call>\n"
       "<tool_call>\n{\"name\": \"get_all\", \"arguments\": {}}\n</tool_call><|end|>"},
      {kFields, "Well.<call>get<k>city</k><v>a\"b</v><k>days</k><v>2</v></call><call>get_all</call><|end|>"},
      {kKeyword, "Well.<|calls|>[get(city=\"a\\\"b\", days=2), get_all()]<|/calls|>"},
      {kNumbered,
       "Well.<calls><c>functions.get:0<a>{\"city\": \"a\\\"b\",\"days\": 2}</c>"
       "<c>functions.get_all:1<a>{}</c></calls><|end|>"},
      {kIds,
       "Well.[CALLS][{\"name\": \"get\", \"arguments\": {\"city\": \"a\\\"b\", \"days\": 2}, \"id\": \"x1\"}, "
       "{\"name\": \"get_all\", \"arguments\": {}, \"id\": \"x2\"}]<|end|>"}};
  return kKinds;
}

}  // namespace vitrine::test
