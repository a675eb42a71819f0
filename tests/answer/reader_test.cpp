// Answers that are read while they come: wherever the pieces are cut, together they are what the whole text is.
#include "answer/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "answer/answers.h"
#include "answer/parse.h"

namespace vitrine::test {
namespace {

using answer::AnswerDelta;
using answer::AnswerReader;
using answer::ParsedAnswer;
using Kind = answer::ArgumentsFormat::Kind;

/// The characters of a text.
std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> all;
  for (const char c : text) {
    if (all.empty() || (static_cast<unsigned char>(c) & 0xC0) != 0x80) all.emplace_back();
    all.back() += c;
  }
  return all;
}

/// The text in pieces of 1 to 9 characters.
std::vector<std::string> random_pieces(std::string_view text, std::mt19937& random) {
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

Streamed streamed(const AnswerFormat& format, const std::string& prompt, const std::vector<std::string>& pieces,
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
std::string shown(const AnswerDelta& answer, bool by_value) {
  std::string text = "[" + answer.reasoning + "][" + answer.content + "]";
  for (const auto& call : answer.calls) {
    const OrderedJson value = by_value ? OrderedJson::parse(call.arguments, nullptr, false) : OrderedJson();
    text += "\n" + call.id + " " + call.name + " " + (value.is_object() ? value.dump() : call.arguments);
  }
  return text;
}

std::string shown(const ParsedAnswer& answer) {
  std::string text = "[" + answer.reasoning.value_or("") + "][" + answer.content + "]";
  for (const auto& call : answer.calls) text += "\n" + call.id + " " + call.name + " " + call.arguments.dump();
  return text;
}

/// Reads the text whole, by characters and in random pieces. All are the same, which is returned.
AnswerDelta read_all_ways(const AnswerFormat& format, const std::string& prompt, const std::string& text,
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

AnswerDelta expect_as_parsed(const AnswerFormat& format, const std::string& prompt, const std::string& text,
                             const OrderedJson& offered) {
  AnswerDelta read = read_all_ways(format, prompt, text, offered);
  EXPECT_EQ(shown(read, true), shown(answer::parse_answer(format, prompt, text, offered))) << text;
  return read;
}

/// Cuts the text at every `step`-th character. What has been handed out at a cut is a beginning of what comes later.
void expect_beginnings(const AnswerFormat& format, const std::string& prompt, const std::string& text,
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

TEST(AnswerReader, PublishedTemplates) {
  const PublishedAnswers* const published = published_answers();
  if (published == nullptr) GTEST_SKIP() << "VITRINE_DATA has no agents";
  std::size_t n_calls = 0;
  for (const PublishedAnswer& c : published->answers) {
    SCOPED_TRACE(c.name);
    const AnswerDelta read = expect_as_parsed(*c.format, c.prompt, c.text, c.tools);
    expect_beginnings(*c.format, c.prompt, c.text, c.tools, 4);
    n_calls += read.calls.size();
  }
  EXPECT_GT(n_calls, 200U);
}

/// Templates of each kind, and an answer with two calls.
const std::vector<std::pair<std::string, std::string>>& kinds() {
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

TEST(AnswerReader, CallsOfEveryKind) {
  for (const auto& [source, text] : kinds()) {
    const AnswerFormat format = learned(source);
    const AnswerDelta read = expect_as_parsed(format, "<|assistant|>", text, tools());
    ASSERT_EQ(read.calls.size(), 2U) << text;
    EXPECT_EQ(read.calls[0].arguments, R"({"city":"a\"b","days":2})");
    EXPECT_EQ(read.calls[1].name, "get_all");
    expect_beginnings(format, "<|assistant|>", text, tools());
    expect_as_parsed(format, "<|assistant|>", text + " And \xE2\x82\xAC.\n<|end|>", tools());
    expect_as_parsed(format, "<|assistant|>", text, OrderedJson());
  }
  EXPECT_EQ(expect_as_parsed(learned(kIds), "", kinds()[4].second, tools()).calls[1].id, "x2");
}

TEST(AnswerReader, ReasoningIsApart) {
  const AnswerFormat inside = learned(thinking("")), opened = learned(thinking("<think>\n"));
  for (const char* text :
       {"<think>\nHm, <b>. \n</think>\n\nYes <i>.<|end|>", "Yes.", "</think>Yes.<|end|>\n", "", " \n ", "<think>Hm",
        "<thin", "<think>\n\n</think>\n\nYes", "Hm.</th</think> </think>Yes.<|en"}) {
    expect_as_parsed(inside, "<|assistant|>", text, {});
    expect_as_parsed(opened, "<|assistant|><think>\n", text, {});
    expect_beginnings(inside, "<|assistant|>", text, {});
    expect_beginnings(opened, "<|assistant|><think>\n", text, {});
  }
  // A template that writes the end of a reasoning in every answer: what comes before it is reasoning at once.
  const AnswerFormat always = learned(
      "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}<think>\n{{ m.reasoning_content or '' }}\n"
      "</think>\n\n{% endif %}{{ m.content }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}");
  ASSERT_TRUE(always.reasoning && always.reasoning->always_ends);
  AnswerReader reader(always, "<|assistant|><think>\n", {});
  EXPECT_TRUE(reader.is_reasoning());
  EXPECT_EQ(reader.append("\nI think <").reasoning, "I think");
  EXPECT_EQ(reader.append("b> ").reasoning, " <b>");
  EXPECT_TRUE(reader.is_reasoning());
  EXPECT_TRUE(reader.append("\n</think").empty());
  EXPECT_EQ(reader.append(">\n\nSo").content, "So");
  EXPECT_FALSE(reader.is_reasoning());
}

TEST(AnswerReader, NothingIsHandedOutThatMayBecomeAMark) {
  const AnswerFormat format = learned(kHermes);
  AnswerReader reader(format, "", tools());
  EXPECT_EQ(reader.append("\n a ").content, "a");
  EXPECT_TRUE(reader.append(" <tool").empty());
  EXPECT_EQ(reader.append("s> <|end").content, "  <tools>");
  EXPECT_TRUE(reader.append("|> \n").empty());
  EXPECT_EQ(reader.append("b").content, " <|end|> \nb");
  EXPECT_TRUE(reader.append("<tool_call>\n{\"name\": \"get\", \"arg").empty());
  EXPECT_TRUE(reader.append("uments\": ").empty());
  const AnswerDelta call = reader.append("{\"ci");
  ASSERT_EQ(call.calls.size(), 1U);
  EXPECT_TRUE(call.calls[0].begins);
  EXPECT_EQ(call.calls[0].name, "get");
  EXPECT_EQ(call.calls[0].arguments, "{\"ci");
  const AnswerDelta more = reader.append("ty\":  \"x ");
  ASSERT_EQ(more.calls.size(), 1U);
  EXPECT_FALSE(more.calls[0].begins);
  EXPECT_EQ(more.calls[0].arguments, "ty\":\"x ");
  EXPECT_TRUE(reader.finish().empty());
  EXPECT_EQ(reader.answer().content, "a  <tools> <|end|> \nb");
  // At the end a beginning of a mark is content.
  AnswerReader other(format, "", tools());
  EXPECT_EQ(other.append("a <tool_call>\n{\"name\": \"get").content, "a");
  EXPECT_EQ(other.finish().content, " <tool_call>\n{\"name\": \"get");
}

TEST(AnswerReader, NumbersAreAsTheModelSpelledThem) {
  const std::string hermes =
      "<tool_call>\n{\"name\": \"get\", \"arguments\": { \"days\" : 1.50e1,\n \"more\": {\"a b\": [1, 2.0]} "
      "}}\n</tool_call>";
  EXPECT_EQ(expect_as_parsed(learned(kHermes), "", hermes, tools()).calls.at(0).arguments,
            R"({"days":1.50e1,"more":{"a b":[1,2.0]}})");
  const std::string fields =
      "<call>get<k>days</k><v>1.50e1</v><k>list</k><v>['a', \"\\u20ac\"]</v><k>more</k><v>{\"a b\": 2.0}</v>"
      "<k>on</k><v>perhaps</v></call>";
  EXPECT_EQ(expect_as_parsed(learned(kFields), "", fields, tools()).calls.at(0).arguments,
            "{\"days\":1.50e1,\"list\":[\"a\",\"\xE2\x82\xAC\"],\"more\":{\"a b\":2.0},\"on\":\"perhaps\"}");
}

TEST(AnswerReader, LongTextsComeInPieces) {
  const AnswerFormat format = learned(kFields);
  AnswerReader reader(format, "", tools());
  reader.append("<call>get<k>city</k><v>");
  ASSERT_EQ(reader.answer().calls.size(), 1U);
  EXPECT_EQ(reader.answer().calls[0].arguments, "{\"city\":\"");
  for (int i = 0; i < 100; ++i) {
    const AnswerDelta delta = reader.append("\"</v>\n<");
    ASSERT_EQ(delta.calls.size(), 1U);
    EXPECT_EQ(delta.calls[0].arguments, i == 0 ? "\\\"</v>\\n" : "<\\\"</v>\\n");
  }
  EXPECT_TRUE(reader.append("/v></cal").empty());
  EXPECT_EQ(reader.append("l>").calls.at(0).arguments, "\"}");
  EXPECT_TRUE(reader.append("<call>get_all").empty());
  EXPECT_EQ(reader.append("</call>").calls.at(0).arguments, "{}");
}

TEST(AnswerReader, LongTextsOfPublishedTemplatesComeInPieces) {
  const PublishedAnswers* const published = published_answers();
  if (published == nullptr) GTEST_SKIP() << "VITRINE_DATA has no agents";
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "if (a < b) return \"\xE2\x82\xAC\";\n\n";
  std::size_t n = 0;
  for (const PublishedAnswer& c : published->answers) {
    if (!c.want.contains("tool_calls") || c.want["tool_calls"][0]["name"] != "write_file") continue;
    SCOPED_TRACE(c.name);
    const bool is_json = c.format->calls->arguments.kind == Kind::json;
    const OrderedJson old = c.want["tool_calls"][0]["arguments"]["text"];
    const std::string before = is_json ? old.dump() : old.get<std::string>();
    const std::size_t at = c.text.find(before);
    if (at == std::string::npos) continue;  // another spelling of JSON
    std::string text = c.text;
    text.replace(at, before.size(), is_json ? OrderedJson(lines).dump() : lines);
    expect_as_parsed(*c.format, c.prompt, text, c.tools);
    const Streamed read = streamed(*c.format, c.prompt, characters(text), c.tools);
    ASSERT_FALSE(read.all.calls.empty());
    std::size_t n_pieces = 0;
    for (const AnswerDelta& delta : read.each) n_pieces += delta.calls.size();
    const bool has_late_id = c.format->calls->parts.back().kind == answer::CallPart::Kind::id;
    EXPECT_GT(n_pieces, has_late_id ? 0 : lines.size() / 2);
    ++n;
  }
  EXPECT_GT(n, 30U);
}

TEST(AnswerReader, WhatIsNoCallIsContent) {
  for (const char* text : {"<tool_call>\n{\"name\": \"gone\", \"arguments\": {}}\n</tool_call>",
                           "<tool_call>\n{\"name\": \"get\", \"arguments\": [1]}\n</tool_call>",
                           "<tool_call>\n{\"name\": \"get\", \"args\": {}}\n</tool_call>",
                           "<tool_call> <tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>"}) {
    expect_as_parsed(learned(kHermes), "", text, tools());
  }
  // Arguments that break off, in a call whose id is not known yet.
  expect_as_parsed(learned(kIds), "", "[CALLS][{\"name\": \"get\", \"arguments\": {\"a\": }, \"id\": \"x\"}]", tools());
  expect_as_parsed(learned(kIds), "", "[CALLS][{\"name\": \"get\", \"arguments\": {\"a\": 1}, \"no\": \"x\"}]",
                   tools());
}

TEST(AnswerReader, WhatHasBeenHandedOutStays) {
  const auto read = [](const std::string& source, const std::string& text) {
    return shown(read_all_ways(learned(source), "", text, tools()), false);
  };
  const std::string call = "<tool_call>\n{\"name\": \"get\", \"arguments\": ";
  EXPECT_EQ(read(kHermes, call + "{\"a\": }}\n</tool_call>b"), "[][b]\n get {\"a\":}");
  EXPECT_EQ(read(kHermes, "a" + call + "{\"a\": 1} 2"), "[][a\n2]\n get {\"a\":1}");
  EXPECT_EQ(read(kHermes, call + "{}}\n</tool_call>\n" + call + "[]"), "[][" + call + "[]]\n get {}");
  EXPECT_EQ(read(kFields, "<call>get<k>city</k><v>a</v><k>days</k><v>12</"), "[][]\n get {\"city\":\"a\"");
  // The answer ends before the id of the call.
  EXPECT_EQ(read(kIds, "[CALLS][{\"name\": \"get\", \"arguments\": {\"a\": 1"), "[][]\n get {\"a\":1");
}

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
