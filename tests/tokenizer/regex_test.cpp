// The character classes of tokenizer files' regexes. They were compared with `tokenizers` 0.23.3 for every code point
// (docs/tokenizers.md); these tests cover the characters for which regex engines and versions of Unicode differ.
#include "tokenizer/regex.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "tokenizer/read/gguf_pre.h"

namespace vitrine {
namespace {

constexpr auto kOniguruma = RegexSyntax::oniguruma;

/// The parts of `text` that match.
std::vector<std::string> matches(std::string_view pattern, const std::string& text, RegexSyntax syntax = kOniguruma) {
  std::vector<std::string> found;
  Regex(pattern, syntax, "F").for_each_match(text, [&](Regex::Match m) {
    found.push_back(text.substr(m.begin, m.end - m.begin));
  });
  return found;
}

using Texts = std::vector<std::string>;

TEST(Regex, MatchesLatinNumbersAsWordsOutsideClassesOnly) {
  const std::string text = "\u00b2\u00b3\u00b9\u00bc\u00bd\u00be\u2070\u2155";
  EXPECT_EQ(matches(R"(\w)", text), (Texts{"\u00b2", "\u00b3", "\u00b9", "\u00bc", "\u00bd", "\u00be"}));
  EXPECT_EQ(matches(R"(\W)", text), (Texts{"\u2070", "\u2155"}));
  EXPECT_EQ(matches(R"([\w])", text), Texts{});
  EXPECT_EQ(matches(R"([^\w]+)", text), Texts{text});
  EXPECT_EQ(matches(R"([[:word:]])", text), Texts{});
  EXPECT_EQ(matches(R"(\w)", text, RegexSyntax::rust), Texts{});
}

TEST(Regex, HasPosixClasses) {
  const std::string text = "aZ5_ \t.+\u00e9\u00c9\u0664\u00a0\x01";
  EXPECT_EQ(matches("[[:alpha:]]", text), (Texts{"a", "Z", "\u00e9", "\u00c9"}));
  EXPECT_EQ(matches("[[:alnum:]]", text), (Texts{"a", "Z", "5", "\u00e9", "\u00c9", "\u0664"}));
  EXPECT_EQ(matches("[[:digit:]_]", text), (Texts{"5", "_", "\u0664"}));
  EXPECT_EQ(matches("[[:space:]]", text), (Texts{" ", "\t", "\u00a0"}));
  EXPECT_EQ(matches("[[:blank:]]", text), (Texts{" ", "\t", "\u00a0"}));
  EXPECT_EQ(matches("[[:punct:]]", text), (Texts{"_", ".", "+"}));
  EXPECT_EQ(matches("[[:upper:]]", text), (Texts{"Z", "\u00c9"}));
  EXPECT_EQ(matches("[[:cntrl:]]", text), (Texts{"\t", "\x01"}));
  EXPECT_EQ(matches("[[:xdigit:]]", text), (Texts{"a", "5"}));
  EXPECT_EQ(matches("[^[:ascii:]]+", text), (Texts{"\u00e9\u00c9\u0664\u00a0"}));
  for (const char* refused : {"[[:lower:]]", "[[:graph:]]", "[[:print:]]", "[[:^alpha:]]", "[[:odd:]]"}) {
    EXPECT_THROW(Regex(refused, kOniguruma, "F"), Unsupported) << refused;
  }
  EXPECT_THROW(Regex("[[:alpha:]]", RegexSyntax::rust, "F"), Unsupported);  // ASCII in Rust
}

TEST(Regex, KnowsCharactersNewerThanPcre) {
  const std::string newer = "\u0363\u1dd3\u0f82\U00010d69\U00010d6a\U00011f00";  // marks; U+10D6A is not Alphabetic
  EXPECT_EQ(matches(R"(\p{Alphabetic})", newer), (Texts{"\u0363", "\u1dd3", "\u0f82", "\U00010d69", "\U00011f00"}));
  EXPECT_EQ(matches(R"(\P{Alphabetic})", newer), Texts{"\U00010d6a"});
  EXPECT_EQ(matches("[[:alnum:]]", newer), (Texts{"\u0363", "\u1dd3", "\u0f82", "\U00010d69", "\U00011f00"}));
  EXPECT_EQ(matches(R"(\p{Mc})", "\U0001171e\U0001171f"), Texts{"\U0001171e"});  // Mn before Unicode 16
}

TEST(Regex, ReadsPropertiesWithoutBraces) {
  EXPECT_EQ(matches(R"(\pL)", "ab pL", kOniguruma), Texts{"pL"});
  EXPECT_EQ(matches(R"(\pL+)", "ab pL", RegexSyntax::rust), (Texts{"ab", "pL"}));
}

TEST(Regex, IntersectsClasses) {
  const std::string text = "aB\u4e2d9z\u00e9";
  for (const RegexSyntax syntax : {kOniguruma, RegexSyntax::rust}) {
    EXPECT_EQ(matches(R"([\p{L}&&[^\p{Han}]]+)", text, syntax), (Texts{"aB", "z\u00e9"}));
    EXPECT_EQ(matches(R"([\p{L}\p{N}&&[^\p{Han}b-z]])", text, syntax), (Texts{"a", "B", "9", "\u00e9"}));
    EXPECT_EQ(matches(R"([a-z&&x-zB9])", text, syntax), Texts{"z"});
    EXPECT_EQ(matches(R"([\p{L}&&[a-z]&&[^a]]|9)", text, syntax), (Texts{"9", "z"}));
    for (const char* refused : {"[^a&&b]", "[&&a]", "[a&&[^b]c]", "[a[b&&c]]", "[a--b]", "[a[^b]]"}) {
      EXPECT_THROW(Regex(refused, syntax, "F"), Unsupported) << refused;
    }
  }
}

/// Expected words by Python's `regex`.
TEST(Regex, SplitsWordsAsKimi) {
  const std::string_view pattern = gguf_pre_tokenizer("kimi-k2", "F").patterns.front();
  const std::string text = "Hello\u4e16\u754cabc \u4e2d\u6587ABC's \u30ab\u30bf\u6f22\u5b57kana 12345!\n";
  const Texts words = {"Hello",        "\u4e16\u754c", "abc", " ",   "\u4e2d\u6587", "ABC's", " \u30ab\u30bf",
                       "\u6f22\u5b57", "kana",         " ",   "123", "45",           "!\n"};
  EXPECT_EQ(matches(pattern, text), words);
  EXPECT_EQ(matches(pattern, text, RegexSyntax::rust), words);
}

/// As in Oniguruma, an empty match does not directly follow another match.
TEST(Regex, FindsEmptyMatches) {
  EXPECT_EQ(matches("x*", "abxxc"), (Texts{"", "", "xx", ""}));
  EXPECT_EQ(matches("x?", "xx"), (Texts{"x", "x"}));
  EXPECT_EQ(matches("^", "ab\nc"), (Texts{"", ""}));
  EXPECT_EQ(matches("a|", "\u65e5a"), (Texts{"", "a"}));
}

}  // namespace
}  // namespace vitrine
