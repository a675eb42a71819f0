#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/exceptions.h"
#include "constrain/small_vocabulary.h"

namespace vitrine {
namespace {

using constrain::Matcher;

/// The message with which a constraint is refused; "" if it is not.
std::string refusal(const constrain::Source& source) {
  try {
    test::matcher_of(source);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ConstrainSchema, RefusesWhatItDoesNotKnowByKeywordAndPlace) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {R"({"not": {}})", {"not"}},
      {R"({"properties": {"a/b": {"if": {}}}})", {"if", "#/properties/a~1b"}},
      {R"({"type": "array", "contains": {}})", {"contains"}},
      {R"({"uniqueItems": true})", {"uniqueItems"}},
      {R"({"proprties": {}})", {"proprties"}},
      {R"({"$ref": "other.json"})", {"$ref"}},
      {R"({"$ref": "#"})", {"$ref"}},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}})", {"$ref"}},
      {R"({"format": "idn-email"})", {"idn-email"}},
      {R"({"pattern": "(?=a)b"})", {"pattern", "lookaround"}},
      {R"({"pattern": "(a)\\1"})", {"pattern", "backreference"}},
      {R"({"pattern": "\\bword\\b"})", {"pattern", "word boundary"}},
      {R"({"pattern": "a^b"})", {"pattern", "^"}},
      {R"({"pattern": "("})", {"pattern"}},
      {R"({"type": "integer", "minimum": 5, "maximum": 4})", {"maximum"}},
      {R"({"type": "string", "minLength": -1})", {"minLength"}},
      {R"({"type": "string", "maxLength": 1000000000})", {"maxLength", "100000"}},
      {R"({"type": "strnig"})", {"type"}},
      {R"({"unevaluatedProperties": {"type": "string"}})", {"unevaluatedProperties"}},
      {R"({"oneOf": [{"type": "integer", "minimum": 0}, {"type": "integer", "maximum": 9}]})", {"oneOf"}},
      {R"({"enum": []})", {"enum"}},
      {R"(false)", {"no value"}},
      {R"({"type": "object", "required": ["a"], "properties": {"a": false}})", {"no text"}},
      {R"({"type": "object", "required": ["n"], "properties": {"n": {"$ref": "#"}}})", {"no text"}},
      {R"({"type": "object", "minProperties": 2})", {"minProperties"}},
      {R"({"patternProperties": {"^a": {}, "b$": {}}})", {"patternProperties"}},
      {R"({"$id": "x", "properties": {"a": {"$id": "y"}}})", {"$id", "#/properties/a"}},
      {R"({"a": )", {"JSON"}},
      {R"([])", {"schema"}},
  };
  for (const auto& [schema, words] : cases) {
    const std::string message = refusal(test::schema(schema));
    EXPECT_NE(message, "") << schema;
    for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << schema << ": " << message;
  }
}

TEST(ConstrainSchema, PermitsWhiteSpaceBetweenThePartsOnly) {
  const Matcher object =
      test::matcher_of(test::schema(R"({"type": "object", "properties": {"a": {"type": "array"}}})"));
  for (const char* text : {R"({"a":[]})", R"({ "a": [ ] })", "{\n\"a\":\n\n  \t[\n]\n}", "{}", "{ }",
                           R"({"a":[1 , 2]})", "{\n                    \"a\":[]}"}) {
    EXPECT_TRUE(test::permits(object, text)) << text;
  }
  for (const char* text : {R"( {"a":[]})", R"({"a" :[]})", R"({  "a":[]})", "{\n\n\n}", R"({"a":[]} )", "{\t}",
                           "{\n                     \"a\":[]}", R"({"a":[1,]})", R"({"a":[],})"}) {
    EXPECT_FALSE(test::permits(object, text)) << text;
  }
  const Matcher compact =
      test::matcher_of(test::schema(R"({"type": "object", "properties": {"a": {"type": "array"}}})", false));
  EXPECT_TRUE(test::permits(compact, R"({"a":[1,2]})"));
  EXPECT_FALSE(test::permits(compact, R"({"a": [1,2]})"));
}

TEST(ConstrainSchema, SpellsEachStringInOneWay) {
  const Matcher string = test::matcher_of(test::schema(R"({"type": "string"})"));
  for (const char* text : {R"("")", R"("é𝄞/")", R"("\"\\\b\f\n\r\t")", R"("\u0000\u001f")", "\"\x7f\""}) {
    EXPECT_TRUE(test::permits(string, text)) << text;
  }
  for (const char* text : {R"("\u0041")", R"("\u000a")", R"("\u001F")", R"("\/")", "\"\n\"", "\"\xC0\x80\"",
                           "\"\xED\xA0\x80\"", "\"\xFF\"", "\""}) {
    EXPECT_FALSE(test::permits(string, text)) << text;
  }
  const Matcher three = test::matcher_of(test::schema(R"({"type": "string", "minLength": 2, "maxLength": 3})"));
  EXPECT_TRUE(test::permits(three, R"("é\n")"));
  EXPECT_TRUE(test::permits(three, R"("𝄞\u0001a")"));
  EXPECT_FALSE(test::permits(three, R"("é")"));
  EXPECT_FALSE(test::permits(three, R"("abcd")"));
}

TEST(ConstrainSchema, NumbersWithinBounds) {
  struct Case {
    std::string schema;
    std::function<bool(int)> allows;  // hundredths
  };
  const Case cases[] = {
      {R"({"type": "number", "minimum": -1.5, "maximum": 2.25})", [](int h) { return -150 <= h && h <= 225; }},
      {R"({"type": "number", "exclusiveMinimum": 0.05})", [](int h) { return h > 5; }},
      {R"({"type": "number", "maximum": -0.3})", [](int h) { return h <= -30; }},
      {R"({"type": "number", "multipleOf": 0.25})", [](int h) { return h % 25 == 0; }},
      {R"({"type": "number", "multipleOf": 0.1, "minimum": 0, "exclusiveMaximum": 1})",
       [](int h) { return h % 10 == 0 && h >= 0 && h < 100; }},
      {R"({"type": "integer", "minimum": -1.5, "maximum": 12e-1})",
       [](int h) { return h % 100 == 0 && -150 <= h && h <= 120; }},
      {R"({"type": "integer", "minimum": 1, "exclusiveMinimum": true})", [](int h) { return h % 100 == 0 && h > 100; }},
      {R"({"type": "integer", "multipleOf": 0.5, "maximum": 3})", [](int h) { return h % 100 == 0 && h <= 300; }},
  };
  for (const Case& c : cases) {
    const Matcher matcher = test::matcher_of(test::schema(c.schema));
    const bool is_integer = c.schema.find("integer") != std::string::npos;
    for (int h = -399; h <= 399; ++h) {
      const std::string sign = h < 0 ? "-" : "";
      const std::string text = fmt::format("{}{}.{:02}", sign, std::abs(h) / 100, std::abs(h) % 100);
      EXPECT_EQ(test::permits(matcher, text), !is_integer && c.allows(h)) << c.schema << " " << text;
      EXPECT_EQ(test::permits(matcher, text + "0"), !is_integer && c.allows(h)) << c.schema << " " << text;
      if (h % 100 == 0) {
        EXPECT_EQ(test::permits(matcher, std::to_string(h / 100)), c.allows(h)) << c.schema << " " << h;
      }
    }
    EXPECT_FALSE(test::permits(matcher, "1e0"));
    EXPECT_FALSE(test::permits(matcher, "-0"));
    EXPECT_FALSE(test::permits(matcher, "01"));
  }
}

TEST(ConstrainSchema, LargeBoundsAreExact) {
  const Matcher m =
      test::matcher_of(test::schema(R"({"type": "integer", "minimum": 9007199254740993, "maximum": 1e300})"));
  EXPECT_FALSE(test::permits(m, "9007199254740992"));
  EXPECT_TRUE(test::permits(m, "9007199254740993"));
  EXPECT_TRUE(test::permits(m, "9999999999999999"));
  EXPECT_FALSE(test::permits(m, "99999999999999999"));
}

TEST(ConstrainSchema, ValuesKeepTheirSpelling) {
  const Matcher m = test::matcher_of(test::schema(R"({"enum": [1.0, 1e2, -0, {"b": [1, null], "a": "\u00e9"}]})"));
  for (const char* text : {"1.0", "1e2", "-0", R"({"b":[1,null],"a":"é"})", R"({ "b": [ 1 , null ],"a":"é"})"}) {
    EXPECT_TRUE(test::permits(m, text)) << text;
  }
  for (const char* text : {"1", "100", "0", R"({"a":"é","b":[1,null]})"}) EXPECT_FALSE(test::permits(m, text)) << text;
}

TEST(ConstrainSchema, AnyValueHasAtMostSixteenLevels) {
  const Matcher any = test::matcher_of(test::schema("{}"));
  EXPECT_TRUE(test::permits(any, std::string(16, '[') + std::string(16, ']')));
  EXPECT_FALSE(test::permits(any, std::string(17, '[') + std::string(17, ']')));
  const Matcher object = test::matcher_of({.kind = constrain::Source::Kind::json_object});
  EXPECT_TRUE(test::permits(object, R"({"a":{"b":[1,2.5e-3,"x",true,null]},"":{}})"));
  EXPECT_FALSE(test::permits(object, "[]"));
}

TEST(ConstrainSchema, NamesThatAreNotListed) {
  const Matcher m = test::matcher_of(test::schema(
      R"({"type": "object", "properties": {"ab": {"const": 1}}, "additionalProperties": {"const": 2}})", false));
  for (const char* text :
       {R"({"ab":1})", R"({"ab":1,"a":2})", R"({"abc":2,"":2})", R"({"b":2,"b":2})", R"({"\"":2})"}) {
    EXPECT_TRUE(test::permits(m, text)) << text;
  }
  for (const char* text : {R"({"ab":2})", R"({"a":2,"ab":1})", R"({"ab":1,"ab":2})"})
    EXPECT_FALSE(test::permits(m, text)) << text;
}

TEST(ConstrainSchema, Formats) {
  const std::pair<const char*, std::pair<std::vector<const char*>, std::vector<const char*>>> cases[] = {
      {"date", {{"2024-02-29", "1999-12-31"}, {"2023-02-29", "1900-02-29", "2024-13-01", "2024-04-31"}}},
      {"time", {{"23:59:59Z", "00:00:00.5+01:30"}, {"24:00:00Z", "12:00:00", "12:60:00Z"}}},
      {"date-time", {{"2024-02-29T12:00:00Z"}, {"2024-02-29 12:00:00Z", "2024-02-30T12:00:00Z"}}},
      {"duration", {{"P1Y2M3DT4H5M6S", "PT1H", "P2W"}, {"P", "PT", "P1H", "1Y", "P1Y1D"}}},
      {"email", {{"a.b@example.com"}, {"a@@b", ".a@b", "a.@b"}}},
      {"hostname", {{"a-b.example"}, {"-a", "a-", "a..b"}}},
      {"ipv4", {{"127.0.0.1", "255.255.255.255"}, {"256.1.1.1", "1.1.1", "01.1.1.1"}}},
      {"ipv6",
       {{"::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::8", "fe80::1:2"}, {"1:2:3:4:5:6:7", "1::2::3", ":1", "12345::"}}},
      {"uri", {{"https://example.com/a?b#c", "urn:a:b", "mailto:a@b.c"}, {"//example.com", "a b:c", "http://a b"}}},
      {"uuid", {{"123e4567-e89b-12d3-a456-426614174000"}, {"123e4567e89b12d3a456426614174000"}}},
  };
  for (const auto& [format, texts] : cases) {
    const Matcher m = test::matcher_of(test::schema(fmt::format(R"({{"type": "string", "format": "{}"}})", format)));
    for (const char* text : texts.first)
      EXPECT_TRUE(test::permits(m, fmt::format("\"{}\"", text))) << format << " " << text;
    for (const char* text : texts.second)
      EXPECT_FALSE(test::permits(m, fmt::format("\"{}\"", text))) << format << " " << text;
  }
}

TEST(ConstrainSchema, PatternsWithLengthsAndWithPatterns) {
  const Matcher found = test::matcher_of(test::schema(R"({"type": "string", "pattern": "b+", "maxLength": 3})"));
  for (const char* text : {"\"b\"", "\"abc\"", "\"xxb\"", "\"\\nb\""}) EXPECT_TRUE(test::permits(found, text)) << text;
  for (const char* text : {"\"\"", "\"abcd\"", "\"xxx\""}) EXPECT_FALSE(test::permits(found, text)) << text;
  const Matcher both = test::matcher_of(
      test::schema(R"({"allOf": [{"type": "string", "pattern": "^a"}, {"pattern": "z$"}], "minLength": 3})"));
  EXPECT_TRUE(test::permits(both, "\"a\\\"z\""));
  EXPECT_FALSE(test::permits(both, "\"az\""));
  EXPECT_FALSE(test::permits(both, "\"azy\""));
}

}  // namespace
}  // namespace vitrine
