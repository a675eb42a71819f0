#include "base/json.h"

#include <gmock/gmock.h>

#include <chrono>
#include <initializer_list>

#include "base/error.h"
#include "base/temp_folder.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view text) {
  return message_of<BadCheckpoint>([&] { parse_json(text, "file.json"); });
}

std::string nested(std::size_t depth, std::string_view inside) {
  return std::string(depth, '[') + std::string(inside) + std::string(depth, ']');
}

TEST(Json, ReadsValidText) {
  const Json json = parse_json(R"({"a": [1, -2.5e3, true, null], "ä€𝄞": "\u00e4\ud834\udd1e"})", "file.json");
  EXPECT_EQ(json["a"].size(), 4u);
  EXPECT_EQ(json["a"][1], -2500.0);
  EXPECT_EQ(json["ä€𝄞"], "ä𝄞");
}

TEST(Json, RefusesDuplicateKeys) {
  EXPECT_EQ(refusal(R"({"a": {"x": 1}, "b": {"x": 2}, "c": [{"x": 1}, {"x": 1}], "x": 0})"), "");
  EXPECT_THAT(refusal(R"({"a": 1, "b": 2, "a": 1})"), HasSubstr("\"a\""));
  EXPECT_THAT(refusal(R"({"b": [{"k": {"deep": 1, "deep": 2}}]})"), HasSubstr("\"deep\""));
  EXPECT_THAT(refusal(R"({"a": {}, "a": {}})"), HasSubstr("\"a\""));
  EXPECT_THAT(refusal(R"({"A": 1, "\u0041": 2})"), HasSubstr("\"A\"")) << "the same key, spelled with an escape";
  EXPECT_THAT(refusal(R"({"": 1, "": 2})"), HasSubstr("twice"));
}

TEST(Json, BoundsNesting) {
  EXPECT_EQ(refusal(nested(64, "")), "");
  EXPECT_EQ(refusal(nested(64, "0")), "");
  EXPECT_THAT(refusal(nested(65, "")), HasSubstr("deeper than 64"));
  EXPECT_THAT(refusal(nested(65, "0")), HasSubstr("deeper than 64"));
  EXPECT_THAT(refusal(nested(64, "{}")), HasSubstr("deeper than 64"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), HasSubstr("deeper than 64"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(refusal(objects), HasSubstr("deeper than 64"));
}

TEST(Json, RefusesInvalidJsonAndNamesTheFile) {
  using std::string_literals::operator""s;
  for (const std::string& text :
       {""s,        " \n\t "s, "{"s,   "}"s,          "[1,]"s,     "{\"a\":1,}"s, "{\"a\"}"s, "{a:1}"s,
        "{} {}"s,   "{}x"s,    "NaN"s, "[Infinity]"s, "01"s,       "1e999"s,      "-"s,       "nul"s,
        "// a\n1"s, "'a'"s,    "\"a"s, "\"\\x\""s,    "\"a\nb\""s, "{}\0"s,       "\0"s,      "[1 2]"s}) {
    EXPECT_THAT(refusal(text), HasSubstr("file.json")) << "text: " << text;
  }
}

TEST(Json, RefusesInvalidUtf8) {
  for (const char* bytes : {"\xff", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\x80",
                            "\\ud800", "\\udc00", "\\ud800\\u0041"}) {
    EXPECT_THAT(refusal("{\"k\": \"" + std::string(bytes) + "\"}"), HasSubstr("not valid JSON")) << bytes;
    EXPECT_THAT(refusal("{\"" + std::string(bytes) + "\": 1}"), HasSubstr("not valid JSON")) << bytes;
  }
}

TEST(Json, GivesShortMessages) {
  EXPECT_LE(refusal("\"" + std::string(3'000'000, 'x')).size(), 3000u);
  const std::string key = "a\\n\\u001b[31m" + std::string(100'000, 'k');
  EXPECT_LE(refusal("{\"" + key + "\": 1, \"" + key + "\": 2}").size(), 3000u);
}

TEST(Json, BoundsTheNumberOfValues) {
  std::string text = "[{}";
  for (int i = 0; i < 3'000'000; ++i) text += ",{}";
  EXPECT_THAT(refusal(text + "]"), HasSubstr("values")) << "each would take about 80 bytes";
}

TEST(Json, TakesLinearTime) {
  std::string objects = "{\"first\":{}", arrays = "[[]";
  for (int i = 0; i < 100'000; ++i) {
    objects += ",\"" + std::to_string(i) + "\":{}";
    arrays += ",[]";
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(objects + "}", "file.json").size(), 100'001u);
  EXPECT_EQ(parse_json(arrays + "]", "file.json").size(), 100'001u);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 5) << "a scan of the object after each member would take a minute";
}

}  // namespace
}  // namespace vitrine::test
