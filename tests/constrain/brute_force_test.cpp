// Masks against brute force: with a list of all answers, a token is allowed if some answer goes on with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <regex>

#include "constrain/small_vocabulary.h"

namespace vitrine {
namespace {

using constrain::Mask;
using constrain::Matcher;

/// Compares the masks after all `beginnings` with what `answers` say, with and without a number of tokens left.
void expect_masks(Matcher start, const std::vector<std::string>& answers, const std::vector<std::string>& beginnings) {
  const constrain::Vocabulary& vocabulary = start.constraint().vocabulary();
  // The fewest bytes from `text` to an answer; none if it begins no answer.
  const auto rest = [&](const std::string& text) {
    std::optional<std::int64_t> least;
    for (const std::string& a : answers) {
      if (!a.starts_with(text)) continue;
      const auto n = static_cast<std::int64_t>(a.size() - text.size());
      least = std::min(least.value_or(n), n);
    }
    return least;
  };
  for (const std::string& text : beginnings) {
    Matcher matcher = start;
    matcher.append(text);
    const std::optional<std::int64_t> own = rest(text);
    EXPECT_EQ(matcher.state() == Matcher::State::dead, !own) << text;
    EXPECT_EQ(matcher.is_complete(), own == 0) << text;
    if (own) {
      EXPECT_EQ(matcher.shortest(), *own) << text;
    }
    for (const std::optional<std::int64_t> left : {std::optional<std::int64_t>(), {1}, {2}, {3}, {5}}) {
      Matcher copy = matcher;
      const Mask mask = copy.mask(left);
      for (std::int32_t id = 0; id < static_cast<std::int32_t>(vocabulary.size()); ++id) {
        if (!vocabulary.is_text(id)) {
          EXPECT_FALSE(mask.test(id));
          continue;
        }
        const auto after = rest(text + std::string(vocabulary.bytes(id)));
        const bool expected = after && (!left || *after <= *left - 1);
        EXPECT_EQ(mask.test(id), expected)
            << "\"" << text << "\" + \"" << vocabulary.bytes(id) << "\" left " << left.value_or(-1);
      }
    }
  }
}

std::vector<std::string> with_empty(std::vector<std::string> texts) {
  texts.emplace_back();
  return texts;
}

TEST(ConstrainBruteForce, Regexes) {
  // From any text of at most 4 bytes that begins an answer, an answer of at most 8 follows.
  const std::vector<std::string> texts = with_empty(test::all_texts("abc", 8));
  const auto vocabulary = std::make_shared<const constrain::Vocabulary>(test::ListTokenizer(test::all_texts("abc", 2)));
  for (const std::string regex : {"a{2,4}b?", "(a|ab)(c|bc)", "(ab|a|b){2,4}", "[ab]{1,5}c", "(a{1,2}b{0,2}){1,3}",
                                  "((a|b)c?){0,3}", "a(bc){2}|c{0,5}", "(|a|aa)(b|)", "[^a]{3}", "((ab){1,2}c?){1,2}",
                                  "(a?){5}", "(a|a)(a|a)(b|b)", "((a?b?){0,2}c){1,2}", "(a{2,3}){2,3}", "(a{3}){0,2}b",
                                  "((a{0,2}){0,2}b){1,2}", "(a{2,}){0,2}c", "([a-z]*a){2}b", "([a-z]{0,2}b?){1,3}"}) {
    const std::regex own(regex);
    std::vector<std::string> answers;
    for (const std::string& text : texts) {
      if (std::regex_match(text, own)) answers.push_back(text);
    }
    std::vector<std::string> beginnings = with_empty(test::all_texts("abc", 2));
    SCOPED_TRACE(regex);
    expect_masks(test::matcher_of(test::regex(regex), vocabulary), answers, beginnings);
  }
}

TEST(ConstrainBruteForce, AmbiguousAndRecursiveGrammars) {
  struct Case {
    std::string grammar;
    std::function<bool(const std::string&)> is_answer;
  };
  const auto is_palindrome = [](const std::string& t) { return std::equal(t.begin(), t.end(), t.rbegin()); };
  const std::function<bool(const std::string&)> is_balanced = [](const std::string& t) {
    int depth = 0;
    for (const char c : t) {
      depth += c == 'a' ? 1 : -1;
      if (c == 'c' || depth < 0) return false;
    }
    return depth == 0;
  };
  const auto n = [](const std::string& t, char c) { return std::count(t.begin(), t.end(), c); };
  const std::vector<Case> cases = {
      {"root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"c\" root \"c\" | [abc]?", is_palindrome},
      {"root ::= root root | \"a\" root \"b\" | \"\"", is_balanced},
      {"root ::= s\ns ::= s s | \"a\" s \"b\" | \"\"", is_balanced},
      {"root ::= root \"a\" | \"b\"",
       [](const auto& t) { return t.starts_with("b") && t.find_first_not_of('a', 1) == t.npos; }},
      {"root ::= x \"c\" | \"c\"\nx ::= root \"a\"",
       [](const std::string& t) {  // c(ac)*
         if (t.size() % 2 == 0) return false;
         for (std::size_t i = 0; i < t.size(); ++i) {
           if (t[i] != (i % 2 == 0 ? 'c' : 'a')) return false;
         }
         return true;
       }},
      {"root ::= (a | b){2,3}\na ::= \"a\" b? \nb ::= \"b\" | \"bc\"",
       [](const std::string& t) { return std::regex_match(t, std::regex("(ab?|abc|b|bc){2,3}")); }},
      {"root ::= ws item+\nitem ::= ws [abd-z]+ ws ws\nws ::= \"c\"*",
       [](const std::string& t) { return t.find_first_not_of('c') != t.npos; }},
      {"root ::= (line \"c\"*)* \"b\"\nline ::= [^c]*", [](const std::string& t) { return t.ends_with("b"); }},
      {"root ::= e\ne ::= e \"a\" e | [b-z]+",
       [](const std::string& t) { return !t.empty() && t[0] != 'a' && t.back() != 'a' && t.find("aa") == t.npos; }},
      {"root ::= ([a-z]* \"c\"?)* \"a\"", [](const std::string& t) { return t.ends_with("a"); }},
      {"root ::= item{1,3}\nitem ::= \"a\" item | \"b\"",
       [&](const std::string& t) { return n(t, 'c') == 0 && t.ends_with("b") && n(t, 'b') <= 3; }},
  };
  const auto vocabulary = std::make_shared<const constrain::Vocabulary>(test::ListTokenizer(test::all_texts("abc", 3)));
  const std::vector<std::string> texts = with_empty(test::all_texts("abc", 10));
  for (const Case& c : cases) {
    SCOPED_TRACE(c.grammar);
    std::vector<std::string> answers;
    for (const std::string& text : texts) {
      if (c.is_answer(text)) answers.push_back(text);
    }
    // Answers may be longer than the list: only beginnings of at most 2 bytes, with tokens of at most 3, are judged.
    expect_masks(test::matcher_of(test::grammar(c.grammar), vocabulary), answers,
                 with_empty(test::all_texts("abc", 2)));
  }
}

TEST(ConstrainBruteForce, SchemasWithFewAnswers) {
  struct Case {
    std::string schema;
    std::vector<std::string> answers;
  };
  const std::vector<Case> cases = {
      {R"({"enum": [1, 12, "a", null, 1.50]})", {"1", "12", "\"a\"", "null", "1.50"}},
      {R"({"properties": {"a": {"const": 1}, "b": {"type": "null"}}, "type": "object"})",
       {"{}", R"({"a":1})", R"({"b":null})", R"({"a":1,"b":null})"}},
      {R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["b"]})",
       {R"({"b":2})", R"({"a":1,"b":2})"}},
      {R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
           "minProperties": 2, "maxProperties": 2})",
       {R"({"a":1,"b":2})", R"({"a":1,"c":3})", R"({"b":2,"c":3})"}},
      {R"({"type": "array", "items": {"enum": [1, 2]}, "minItems": 1, "maxItems": 2})",
       {"[1]", "[2]", "[1,1]", "[1,2]", "[2,1]", "[2,2]"}},
      {R"({"type": "array", "prefixItems": [{"const": 1}, {"const": "x"}]})", {"[]", "[1]", "[1,\"x\"]"}},
      {R"({"type": "array", "items": [{"const": 1}], "additionalItems": {"const": 2}, "maxItems": 3})",
       {"[]", "[1]", "[1,2]", "[1,2,2]"}},
      {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"properties": {"a": {"enum": [1, "x"]}},
           "required": ["a"]}]})",
       {R"({"a":1})"}},
      {R"({"type": "integer", "minimum": -2, "exclusiveMaximum": 3})", {"-2", "-1", "0", "1", "2"}},
      {R"({"type": "integer", "multipleOf": 3, "minimum": 1, "maximum": 13})", {"3", "6", "9", "12"}},
      {R"({"oneOf": [{"type": "null"}, {"const": true}]})", {"null", "true"}},
      {R"({"type": "string", "pattern": "^[ab\"]{1,2}$", "maxLength": 1})", {"\"a\"", "\"b\"", "\"\\\"\""}},
      {R"({"type": "object", "patternProperties": {"^[xy]$": {"const": 1}}, "maxProperties": 1})",
       {"{}", R"({"x":1})", R"({"y":1})"}},
      {R"({"type": "object", "propertyNames": {"enum": ["p", "q"]}, "additionalProperties": {"const": 0}, "maxProperties": 1})",
       {"{}", R"({"p":0})", R"({"q":0})"}},
      {R"({"type": "string", "nullable": true, "maxLength": 0})", {"\"\"", "null"}},
  };
  std::vector<std::string> pieces = test::all_texts("\"{}[]:,12ab", 2);
  for (const std::string more : {"0", "3", "-", ".", "5",  "n",    "u",      "l",     "t", "r", "e",       "x",
                                 "p", "q", "y", "c", "\\", "null", "\"a\":", "1,\"b", "6", "9", "{\"a\":1"}) {
    pieces.push_back(more);
  }
  const auto vocabulary = std::make_shared<const constrain::Vocabulary>(test::ListTokenizer(pieces));
  for (const Case& c : cases) {
    SCOPED_TRACE(c.schema);
    std::vector<std::string> beginnings{"", "x", "{ "};
    for (const std::string& a : c.answers) {
      for (std::size_t n = 1; n <= a.size(); ++n) beginnings.push_back(a.substr(0, n));
    }
    expect_masks(test::matcher_of(test::schema(c.schema, false), vocabulary), c.answers, beginnings);
  }
}

}  // namespace
}  // namespace vitrine
