// Answers that are read while they come: wherever the pieces are cut, together they are what the whole text is.
#include "answer/streamed.h"

namespace vitrine::test {
namespace {

using Kind = answer::ArgumentsFormat::Kind;

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
  EXPECT_EQ(read(kHermes, call + "{}}\n</tool_"), "[][]\n get {}");
  // The answer ends before the id of the call.
  EXPECT_EQ(read(kIds, "[CALLS][{\"name\": \"get\", \"arguments\": {\"a\": 1"), "[][]\n get {\"a\":1");
}

}  // namespace
}  // namespace vitrine::test
