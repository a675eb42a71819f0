// The formats of calls and reasoning that are learned from templates, and answers taken apart by them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "answer/answers.h"
#include "answer/describe.h"
#include "answer/literal.h"
#include "answer/parse.h"

namespace vitrine::test {
namespace {

using answer::ParsedAnswer;
using Kind = answer::ArgumentsFormat::Kind;

ParsedAnswer parsed(const std::string& source, const std::string& text) {
  return answer::parse_answer(learned(source), "<|assistant|>", text, tools());
}

TEST(AnswerFormat, CallsAreLearnedFromWhatTemplatesWrite) {
  const AnswerFormat hermes = learned(kHermes);
  ASSERT_TRUE(hermes.calls) << hermes.reason;
  EXPECT_EQ(hermes.calls->arguments.kind, Kind::json);
  EXPECT_EQ(hermes.content_end, "<|end|>");
  const OrderedJson json = answer::formats_json(hermes)["tools"]["calls"];
  EXPECT_EQ(json["begin"], "<tool_call>\n");
  EXPECT_EQ(json["separator"], "\n</tool_call>\n<tool_call>\n");
  EXPECT_EQ(json["end"], "\n</tool_call>");
  EXPECT_EQ(json["example"],
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>");
  for (const auto& [source, kind] : {std::pair{kFields, Kind::fields}, {kKeyword, Kind::values}}) {
    const AnswerFormat format = learned(source);
    ASSERT_TRUE(format.calls) << format.reason;
    EXPECT_EQ(format.calls->arguments.kind, kind);
    EXPECT_TRUE(format.calls->between);
  }
  EXPECT_TRUE(learned(kNumbered).calls->has(answer::CallPart::Kind::index));
  EXPECT_TRUE(learned(kIds).calls->has(answer::CallPart::Kind::id));
}

TEST(AnswerFormat, ArgumentsInTheFormThatATemplateReads) {
  const AnswerFormat text = learned(with_calls("<c>{{ f.name }} {{ f.arguments }}</c>"));
  ASSERT_TRUE(text.calls) << text.reason;
  EXPECT_TRUE(text.calls->form.has_text_arguments);
  EXPECT_FALSE(learned(kHermes).calls->form.has_text_arguments);
}

TEST(AnswerFormat, WhatCannotBeReadBackIsNoFormat) {
  EXPECT_THAT(learned("{% for m in messages %}{{ m.content }}{% endfor %}").reason,
              testing::HasSubstr("writes no calls of tools"));
  // Values without marks: "1" and 1, or a text with ", b=" in it, are written alike.
  const std::string unquoted = with_calls(
      "<c>{{ f.name }}({% for k, v in f.arguments.items() %}{% if not loop.first %}, {% endif %}{{ k }}={{ v }}"
      "{% endfor %})</c>");
  EXPECT_FALSE(learned(unquoted).calls);
  EXPECT_THAT(learned(unquoted).reason, testing::HasSubstr("cannot be read back"));
  // Escaped texts without the marks that a text has.
  const std::string upper = with_calls("<c>{{ f.name }} {{ f.arguments | tojson | upper }}</c>");
  EXPECT_FALSE(learned(upper).calls);
  EXPECT_THAT(learned("{{ raise_exception('never') }}").reason, testing::HasSubstr("never"));
  // A call that nothing announces.
  EXPECT_THAT(learned(with_calls("{{ f.name }}\n{{ f.arguments | tojson }}")).reason,
              testing::HasSubstr("nothing tells where a call begins"));
}

TEST(AnswerFormat, ATemplateThatTakesLongIsNotLearned) {
  const std::string slow = "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}";
  EXPECT_THAT(learned(slow + kHermes).reason, testing::HasSubstr("steps"));
  EXPECT_FALSE(learned(slow + kHermes).calls);
}

TEST(ParseAnswer, AValueHasATypeThatItsSchemaPermits) {
  const auto read = [](const std::string& schema, const std::string& text) {
    const OrderedJson tool = {
        {"name", "f"}, {"parameters", {{"type", "object"}, {"properties", {{"a", OrderedJson::parse(schema)}}}}}};
    const ParsedAnswer answer = answer::parse_answer(learned(kFields), "", "<call>f<k>a</k><v>" + text + "</v></call>",
                                                     OrderedJson::array({tool}));
    return answer.calls.empty() ? OrderedJson("no call") : answer.calls[0].arguments["a"];
  };
  EXPECT_EQ(read(R"({"type": ["string", "null"]})", "12"), "12");
  EXPECT_EQ(read(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", "12"), "12");
  EXPECT_EQ(read(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", "null"), nullptr);
  EXPECT_EQ(read(R"({"enum": ["1", "2"]})", "1"), "1");
  EXPECT_EQ(read(R"({"enum": [1, 2]})", "1"), 1);
  EXPECT_EQ(read(R"({"type": ["string", "integer"]})", "12"), 12);
  EXPECT_EQ(read(R"({})", "12"), 12);
}

TEST(ParseAnswer, CallsOfEveryKind) {
  const std::vector<std::pair<std::string, std::string>> texts = {
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
  for (const auto& [source, text] : texts) {
    const ParsedAnswer answer = parsed(source, text);
    ASSERT_EQ(answer.calls.size(), 2U) << text;
    EXPECT_EQ(answer.content, "Well.");
    EXPECT_EQ(answer.calls[0].name, "get");
    EXPECT_EQ(answer.calls[0].arguments.dump(), R"({"city":"a\"b","days":2})") << text;
    EXPECT_EQ(answer.calls[1].name, "get_all");
    EXPECT_EQ(answer.calls[1].arguments.dump(), "{}");
  }
  EXPECT_EQ(parsed(kIds, texts[4].second).calls[1].id, "x2");
}

TEST(ParseAnswer, TheToolSaysWhatIsText) {
  const ParsedAnswer answer = parsed(kFields,
                                     "<call>get<k>city</k><v>12</v><k>on</k><v>True</v><k>list</k><v>['a', "
                                     "'b']</v><k>more</k><v>{\"a\": [1]}</v></call>");
  ASSERT_EQ(answer.calls.size(), 1U);
  EXPECT_EQ(answer.calls[0].arguments.dump(), R"({"city":"12","on":true,"list":["a","b"],"more":{"a":[1]}})");
  // A text may have the marks of other things in it.
  const ParsedAnswer marks = parsed(kFields, "<call>get<k>city</k><v>a</k><v></call> b</v></call>");
  ASSERT_EQ(marks.calls.size(), 1U);
  EXPECT_EQ(marks.calls[0].arguments["city"], "a</k><v></call> b");
}

TEST(ParseAnswer, WhatIsNoWholeCallIsContent) {
  const std::string call =
      "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"b\", \"days\": 2}}\n</tool_call>";
  ASSERT_EQ(parsed(kHermes, call).calls.size(), 1U);
  for (std::size_t size = 1; size < call.size(); ++size) {
    const ParsedAnswer answer = parsed(kHermes, call.substr(0, size));
    EXPECT_TRUE(answer.calls.empty()) << call.substr(0, size);
    EXPECT_FALSE(answer.content.empty());
  }
  for (const char* other : {"<tool_call>\n{\"name\": \"gone\", \"arguments\": {}}\n</tool_call>",
                            "<tool_call>\n{\"name\": \"get\", \"arguments\": [1]}\n</tool_call>",
                            "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": }}\n</tool_call>"}) {
    const ParsedAnswer answer = parsed(kHermes, other);
    EXPECT_TRUE(answer.calls.empty());
    EXPECT_EQ(answer.content, other);
  }
  // Without tools nothing is a call.
  const AnswerFormat format = learned(kHermes);
  EXPECT_EQ(answer::parse_answer(format, "", call, OrderedJson()).content, call);
  EXPECT_EQ(answer::parse_answer(format, "", "", tools()).content, "");
}

TEST(AnswerFormat, ReasoningIsLearned) {
  const AnswerFormat inside = learned(thinking(""));
  ASSERT_TRUE(inside.reasoning);
  EXPECT_EQ(inside.reasoning->begin, "<think>");
  EXPECT_EQ(inside.reasoning->end, "</think>");
  EXPECT_FALSE(inside.reasoning->opens_in_prompt);
  const AnswerFormat opened = learned(thinking("<think>\n"));
  ASSERT_TRUE(opened.reasoning);
  EXPECT_EQ(opened.reasoning->begin, "<think>");
  EXPECT_TRUE(opened.reasoning->opens_in_prompt);
  // A template that removes the reasoning of earlier answers.
  const AnswerFormat removed = learned(
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</thought>')[-1] }}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}");
  ASSERT_TRUE(removed.reasoning);
  EXPECT_EQ(removed.reasoning->end, "</thought>");
  // A switch, and prompts that leave reasoning out.
  const AnswerFormat switched = learned(
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>"
      "{% if thinking_on is defined and not thinking_on %}<r>\n\n</r>{% endif %}{% endif %}");
  ASSERT_TRUE(switched.reasoning);
  EXPECT_EQ(switched.reasoning->begin, "<r>");
  EXPECT_EQ(switched.reasoning->variables, std::vector<std::string>{"thinking_on"});
  EXPECT_FALSE(learned(kHermes).reasoning);
}

TEST(ParseAnswer, ReasoningIsApart) {
  const AnswerFormat format = learned(thinking(""));
  const ParsedAnswer answer =
      answer::parse_answer(format, "<|assistant|>", "<think>\nHm.\n</think>\n\nYes.<|end|>", {});
  EXPECT_EQ(answer.reasoning, "Hm.");
  EXPECT_EQ(answer.content, "Yes.");
  const AnswerFormat opened = learned(thinking("<think>\n"));
  EXPECT_EQ(answer::parse_answer(opened, "<|assistant|><think>\n", "Hm.</think>Yes.", {}).reasoning, "Hm.");
  EXPECT_EQ(answer::parse_answer(opened, "<|assistant|><think>\n", "</think>Yes.", {}).content, "Yes.");
  EXPECT_FALSE(answer::parse_answer(opened, "<|assistant|><think>\n", "</think>Yes.", {}).reasoning);
}

TEST(AnswerFormat, VariablesAreThoseThatATemplateReads) {
  const ChatTemplate parsed(
      "{% set a = a if a is defined else 1 %}{% set own = 2 %}{{ own }}{% for m in messages %}{{ m.x }}{{ loop.index }}"
      "{% endfor %}{% macro f(p) %}{{ p }}{{ g(1) }}{% endmacro %}{% macro g(q) %}{{ q }}{{ late }}{% endmacro %}"
      "{{ range(3) }}{{ f(b.c) }}{% set late = 1 %}");
  EXPECT_EQ(parsed.variables(), (std::vector<std::string>{"a", "b", "late", "messages"}));
}

TEST(Literal, PythonAndJsonAreRead) {
  const auto read = [](std::string_view text) {
    const auto literal = answer::read_literal(text);
    return literal ? literal->first.dump() + "|" + std::string(text.substr(literal->second)) : "none";
  };
  EXPECT_EQ(read("True,"), "true|,");
  EXPECT_EQ(read("['a', \"b'\", (1, 2.5), {'k': None}]x"), R"(["a","b'",[1,2.5],{"k":null}]|x)");
  EXPECT_EQ(read("{\"a\": [1, {\"b\": null}]} "), "{\"a\":[1,{\"b\":null}]}| ");
  EXPECT_EQ(read("'\\u00e9\\x41\\n\\''"),
            "\"\xC3\xA9"
            "A\\n'\"|");
  for (const char* bad : {"", "'", "[1", "{1: 2}", "[1 2]", "word", "'\\ud800'", "{'a'}"}) EXPECT_EQ(read(bad), "none");
  EXPECT_EQ(read(std::string(1000, '[')), "none");
}

/// What 79 published templates write, and what it means.
TEST(ParseAnswer, PublishedTemplates) {
  const PublishedAnswers* const published = published_answers();
  if (published == nullptr) GTEST_SKIP() << "VITRINE_DATA has no agents";
  std::int64_t n_right = 0, n_wrong = 0;
  for (const PublishedAnswer& c : published->answers) {
    const ParsedAnswer read = answer::parse_answer(*c.format, c.prompt, c.text, c.tools);
    OrderedJson calls = OrderedJson::array();
    for (const auto& call : read.calls) calls.push_back({{"name", call.name}, {"arguments", call.arguments}});
    const OrderedJson want = c.want.contains("tool_calls") ? c.want["tool_calls"] : OrderedJson::array();
    const bool same_calls = Json::parse(calls.dump()) == Json::parse(want.dump());
    const std::string reasoning = c.want.value("reasoning_content", "");
    n_wrong += !read.calls.empty() && !same_calls ? 1 : 0;
    n_right += same_calls && read.content == c.want["content"] && read.reasoning.value_or("") == reasoning ? 1 : 0;
  }
  EXPECT_EQ(published->answers.size(), 338U);
  EXPECT_EQ(n_wrong, 0);
  // Two templates write a content before a call as they write a thought.
  EXPECT_GE(n_right, 336);
}

}  // namespace
}  // namespace vitrine::test
