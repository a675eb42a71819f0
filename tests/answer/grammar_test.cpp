// Answers that the grammar of a format permits are read back as calls of declared tools with valid arguments.
#include "answer/grammar.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "answer/answers.h"
#include "answer/parse.h"
#include "answer/reader.h"
#include "base/error.h"
#include "constrain/small_vocabulary.h"
#include "constrain/sources.h"

namespace vitrine::test {
namespace {

using answer::AnswerRules;
using answer::ParsedAnswer;
using answer::ReasoningPlace;
using constrain::Constraint;
using constrain::Matcher;

/// Tools with arguments of every kind.
OrderedJson many_tools() {
  return OrderedJson::parse(R"([
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
      "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["C", "F", "1"]},
                     "more": {"anyOf": [{"type": "string", "pattern": "^[0-9]{1,3}$"}, {"type": "null"}]},
                     "days": {"type": "integer", "minimum": 1, "maximum": 14}},
      "required": ["city"], "additionalProperties": false}}},
    {"type": "function", "function": {"name": "put", "parameters": {"type": "object",
      "properties": {"name": {"type": "string", "pattern": "^[a-z_]{1,8}$"},
                     "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 3},
                     "place": {"type": "object", "properties": {"x": {"type": "number"}, "on": {"type": "boolean"},
                               "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}},
                               "required": ["on"]},
                     "nothing": {"type": "null"}},
      "required": ["name", "tags", "place"]}}},
    {"type": "function", "function": {"name": "get", "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "stop", "strict": false}}])");
}

/// Any value is an array of an object: `parameters` of the tool `name`.
std::string schema_of(const std::string& name) {
  for (const OrderedJson& tool : many_tools()) {
    const OrderedJson& f = tool["function"];
    if (f["name"] == name && f.value("strict", true)) return f["parameters"].dump();
    if (f["name"] == name) return R"({"type":"object"})";
  }
  return "false";
}

std::shared_ptr<const Constraint> constraint_of(const AnswerFormat& format, ReasoningPlace place,
                                                const AnswerRules& rules) {
  const auto vocabulary = byte_vocabulary();
  return std::make_shared<const Constraint>(answer::answer_grammar(format, place, rules, *vocabulary, {}), "answer",
                                            vocabulary);
}

/// A text of at most `most` bytes that a random model would write, one byte after the other.
std::string random_answer(const std::shared_ptr<const Constraint>& constraint, std::mt19937& random,
                          std::int64_t most) {
  Matcher matcher(constraint);
  std::string text;
  for (; most > 0 && !matcher.must_end(); --most) {
    const constrain::Mask mask = matcher.mask(most);
    std::vector<std::int32_t> ids, letters;
    for (std::int32_t id = 0; id < 256; ++id) {
      if (!mask.test(id)) continue;
      ids.push_back(id);
      if (id > ' ' && id < 127) letters.push_back(id);
    }
    if (ids.empty() || (matcher.is_complete() && random() % 4 == 0)) break;
    if (!letters.empty() && random() % 8 != 0) ids = letters;
    const std::int32_t id = ids[random() % ids.size()];
    text += static_cast<char>(id);
    matcher.append(id);
  }
  EXPECT_TRUE(matcher.is_complete()) << text;
  return text;
}

void expect_valid_calls(const AnswerFormat& format, const std::string& prompt, const std::string& text,
                        const std::string& name) {
  const ParsedAnswer whole = answer::parse_answer(format, prompt, text, many_tools());
  answer::AnswerReader reader(format, prompt, many_tools());
  reader.append(text);
  reader.finish();
  const answer::AnswerDelta& answer = reader.answer();
  ASSERT_GE(answer.calls.size(), 1U) << name << "\n" << text;
  ASSERT_EQ(answer.calls.size(), whole.calls.size()) << name << "\n" << text;
  EXPECT_EQ(answer.content, "") << name << "\n" << text;
  for (std::size_t i = 0; i < answer.calls.size(); ++i) {
    const auto& call = answer.calls[i];
    EXPECT_TRUE(permits(matcher_of(schema(schema_of(call.name))), call.arguments)) << name << "\n"
                                                                                   << text << "\n"
                                                                                   << call.name << call.arguments;
    EXPECT_EQ(OrderedJson::parse(call.arguments), whole.calls[i].arguments) << name << "\n" << text;
  }
}

void expect_calls_by_construction(const AnswerFormat& format, const std::string& name, int n, std::mt19937& random) {
  const AnswerRules rules{.calls = AnswerRules::Calls::must, .tools = many_tools()};
  const auto constraint = constraint_of(format, ReasoningPlace::nowhere, rules);
  for (int i = 0; i < n; ++i) {
    const std::int64_t most = constraint->shortest() + static_cast<std::int64_t>(random() % 300);
    expect_valid_calls(format, "", random_answer(constraint, random, most), name);
  }
}

TEST(AnswerGrammar, EveryPermittedCallIsReadBackAndValid) {
  std::mt19937 random(1);
  int i = 0;
  for (const std::string& source : {kHermes, kFields, kKeyword, kNumbered, kIds}) {
    expect_calls_by_construction(learned(source), std::to_string(i++), 40, random);
  }
}

TEST(AnswerGrammar, TheCallsOfPublishedTemplates) {
  const std::string folder = outside_data("tuning/templates");
  if (folder.empty()) GTEST_SKIP() << "no VITRINE_DATA";
  std::mt19937 random(2);
  int n_templates = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string source(MappedFile::open_or_read(file.path().string())->text());
    AnswerFormat format;
    try {
      format = learned(source);
    } catch (const Error&) {
      continue;
    }
    if (!format.calls) continue;
    ++n_templates;
    SCOPED_TRACE(file.path().filename().string());
    expect_calls_by_construction(format, file.path().filename().string(), 5, random);
  }
  EXPECT_GT(n_templates, 40);
}

TEST(AnswerGrammar, ACallMayComeAfterFreeText) {
  const AnswerFormat format = learned(kHermes);
  const auto constraint =
      constraint_of(format, ReasoningPlace::nowhere, {.calls = AnswerRules::Calls::may, .tools = many_tools()});
  const Matcher start(constraint);
  EXPECT_TRUE(permits(start, ""));
  EXPECT_TRUE(permits(start, "Hello <b>, 1 < 2 and a <tool_"));
  EXPECT_FALSE(permits(start, "Hello <tool_call>"));
  const std::string call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\"}}\n</tool_call>";
  EXPECT_TRUE(permits(start, call));
  EXPECT_TRUE(permits(start, "Let me look.\n" + call));
  EXPECT_TRUE(permits(start, call + "\n" + call));
  EXPECT_FALSE(permits(start, call + "\n" + call + " and so on"));
  Matcher other = start;
  other.append("<tool_call>\n{\"name\": \"unknown");
  EXPECT_EQ(other.state(), Matcher::State::dead);
  other = start;
  other.append("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"days\"");
  EXPECT_EQ(other.state(), Matcher::State::dead) << "the city is required";
}

TEST(AnswerGrammar, NoneOneAndNamedCalls) {
  const AnswerFormat format = learned(kHermes);
  const std::string call = "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>";
  const Matcher none(constraint_of(format, ReasoningPlace::nowhere, {.tools = many_tools()}));
  EXPECT_TRUE(permits(none, "text"));
  EXPECT_FALSE(permits(none, call));
  const AnswerRules one{.calls = AnswerRules::Calls::must, .tools = many_tools(), .may_have_several = false};
  const Matcher single(constraint_of(format, ReasoningPlace::nowhere, one));
  EXPECT_TRUE(permits(single, call));
  EXPECT_FALSE(permits(single, call + "\n" + call));
  EXPECT_FALSE(permits(single, "text"));
  const AnswerRules numbered{.calls = AnswerRules::Calls::must, .tools = many_tools()};
  const Matcher two(constraint_of(learned(kNumbered), ReasoningPlace::nowhere, numbered));
  EXPECT_TRUE(permits(two, "<calls><c>functions.get:0<a>{}</c><c>functions.get:1<a>{}</c>"));
  EXPECT_FALSE(permits(two, "<calls><c>functions.get:1<a>{}</c>"));
}

TEST(AnswerGrammar, AConstraintAppliesAfterTheReasoning) {
  const AnswerFormat format = learned(thinking(""));
  ASSERT_TRUE(format.reasoning);
  AnswerRules rules;
  rules.content = constrain::parse_schema(R"({"enum": [1, 2]})", true);
  const Matcher answer(constraint_of(format, ReasoningPlace::answer, rules));
  EXPECT_TRUE(permits(answer, "1"));
  EXPECT_TRUE(permits(answer, "<think>\nAny \"text\" {\n</think>\n\n2"));
  EXPECT_FALSE(permits(answer, "<think>\nAny text"));
  EXPECT_FALSE(permits(answer, "<think>\nAny text\n</think>\n\n3"));
  const Matcher open(constraint_of(format, ReasoningPlace::prompt, rules));
  EXPECT_TRUE(permits(open, "Hm.\n</think>\n\n2"));
  EXPECT_FALSE(permits(open, "2"));
  const Matcher over(constraint_of(format, ReasoningPlace::nowhere, rules));
  EXPECT_TRUE(permits(over, "2"));
  const Matcher free(constraint_of(format, ReasoningPlace::prompt, {.tools = many_tools()}));
  EXPECT_TRUE(permits(free, "Cut within the reasoning"));
}

TEST(AnswerGrammar, WhatCannotBeWrittenIsRefusedByName) {
  const AnswerFormat fields = learned(kFields);
  const auto refusal = [&](const AnswerFormat& format, const std::string& parameters) -> std::string {
    const OrderedJson tool = {{"name", "f"}, {"parameters", OrderedJson::parse(parameters)}};
    try {
      constraint_of(format, ReasoningPlace::nowhere,
                    {.calls = AnswerRules::Calls::must, .tools = OrderedJson::array({tool})});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(refusal(fields, R"({"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": false})")
                .find("tool \"f\""),
            std::string::npos);
  EXPECT_NE(refusal(learned(kHermes), R"({"type": "object", "properties": {"a": {"not": {}}}})").find("#/properties/a"),
            std::string::npos);
  EXPECT_NE(refusal(learned(kHermes), R"({"type": "string"})"), "");
  EXPECT_NE(refusal(learned("{{ messages[0].content }}"), R"({"type": "object"})").find("writes no calls"),
            std::string::npos);
}

}  // namespace
}  // namespace vitrine::test
