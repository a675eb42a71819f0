#include <gtest/gtest.h>

#include <chrono>

#include "base/exceptions.h"
#include "constrain/small_vocabulary.h"
#include "support/data.h"

namespace vitrine {
namespace {

using constrain::Mask;
using constrain::Matcher;

TEST(ConstrainMatcher, ForcedTextIsWholeCharacters) {
  const Matcher start = test::matcher_of(test::choice({"naïve", "naïf"}));
  Matcher m = start;
  EXPECT_EQ(m.forced(), "naï");
  m.append("na\xC3");
  EXPECT_EQ(m.forced(), "\xAF");  // it completes the character
  Matcher done = test::matcher_of(test::choice({"ab", "abcd"}));
  EXPECT_EQ(done.forced(), "ab");
  done.append("ab");
  EXPECT_EQ(done.forced(), "");
  EXPECT_FALSE(done.must_end());
  done.append("cd");
  EXPECT_TRUE(done.must_end());
  Matcher greek = test::matcher_of(test::regex("[αβ]"));
  EXPECT_EQ(greek.forced(), "");  // the first byte is forced, but half a character is no text
}

TEST(ConstrainMatcher, NamedTokens) {
  const auto tokenizer = test::ListTokenizer({"a", "b", "ab"});
  const auto vocabulary = std::make_shared<const constrain::Vocabulary>(tokenizer);
  Matcher m = test::matcher_of(test::grammar("root ::= \"a\" <mark> !<[0]> <[2]>?"), vocabulary);
  const auto allowed = [&](const Matcher& at) {
    Matcher copy = at;
    std::vector<std::int32_t> ids;
    const Mask mask = copy.mask();
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(mask.n_ids()); ++id) {
      if (mask.test(id)) ids.push_back(id);
    }
    return ids;
  };
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(allowed(m), (Ids{0}));
  m.append("a");
  EXPECT_EQ(allowed(m), (Ids{tokenizer.mark()}));
  m.append(tokenizer.mark());
  EXPECT_EQ(allowed(m), (Ids{1, 2}));  // !<[0]>: text tokens only
  m.append(1);
  EXPECT_TRUE(m.is_complete());
  EXPECT_EQ(allowed(m), (Ids{2}));
  Matcher special = m;
  special.append(tokenizer.mark());
  EXPECT_EQ(special.state(), Matcher::State::dead);
  EXPECT_THROW(test::matcher_of(test::grammar("root ::= <none>"), vocabulary), BadInput);
  EXPECT_THROW(test::matcher_of(test::grammar("root ::= <[99]>"), vocabulary), BadInput);
}

TEST(ConstrainMatcher, VocabularyThatLacksBytes) {
  const auto vocabulary = std::make_shared<const constrain::Vocabulary>(test::ListTokenizer({"a", "é", "\xC3", "bc"}));
  Matcher m = test::matcher_of(test::choice({"aé", "ab", "aü", "bc"}), vocabulary);
  EXPECT_EQ(m.shortest(), 3);  // "aé" alone: b and ü cannot be written in all ways
  Matcher after = m;
  after.append("a");
  EXPECT_EQ(after.forced(), "é");
  EXPECT_EQ(after.mask().count(), 2);  // é, and its first byte
  EXPECT_THROW(test::matcher_of(test::choice({"b", "ü"}), vocabulary), BadInput);
}

TEST(ConstrainMatcher, LongTextsKeepTheirStacksSmall) {
  Matcher m = test::matcher_of(test::grammar("root ::= \"a\" root | \"b\""));
  m.append(std::string(200'000 / test::kSlowdown, 'a'));
  EXPECT_EQ(m.shortest(), 1);
  m.append("b");
  EXPECT_TRUE(m.must_end());
  Matcher nested = test::matcher_of(test::grammar("root ::= \"(\" root \")\" | \"\""));
  nested.append(std::string(50'000, '('));
  EXPECT_EQ(nested.shortest(), 50'000);
  nested.append(std::string(50'000, ')'));
  EXPECT_TRUE(nested.must_end());
}

/// Each of these is an answer within two seconds, or a refusal.
TEST(ConstrainHostile, AnswersOrRefusesInTime) {
  const auto repeated = [](const std::string& text, int n) {
    std::string all;
    for (int i = 0; i < n; ++i) all += text;
    return all;
  };
  std::string enums = "{\"enum\": [", properties = "{\"type\": \"object\", \"properties\": {", any_of;
  for (int i = 0; i < 60'000; ++i) enums += (i > 0 ? "," : "") + ("\"text" + std::to_string(i)) + "\"";
  for (int i = 0; i < 10'000; ++i)
    properties += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\": {\"type\": \"string\", \"maxLength\": 9}";
  for (int i = 0; i < 400; ++i) any_of += "{\"anyOf\": [";
  std::vector<constrain::Source> sources = {
      test::regex(repeated("(a|a)*", 2000)),
      test::regex(repeated("(", 400) + "a" + repeated(")*", 400)),
      test::regex(repeated("(", 600) + repeated(")", 600)),
      test::regex("((a{0,1000}){0,1000}){0,1000}"),
      test::regex("(a{1,100000}b?){1,100000}"),
      test::regex("(a|aa){100000}"),
      test::regex(repeated("(a?)", 3000) + repeated("a", 3000)),
      test::regex(repeated("\\p{L}{1,99}", 500)),
      test::schema(enums + "]}"),
      test::schema(properties + "}}"),
      test::schema(any_of + "{}" + repeated("]}", 400)),
      test::schema(repeated("{\"items\": ", 500) + "{}" + repeated("}", 500)),
      test::schema(repeated("[", 5000) + repeated("]", 5000)),
      test::schema(
          R"({"type": "array", "maxItems": 100000, "items": {"type": "array", "maxItems": 100000, "items": {"type": "string", "maxLength": 100000}}})"),
      test::schema(R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})"),
      test::schema(R"({"type": "string", "pattern": "(x+x+)+y", "maxLength": 100000})"),
      test::schema(R"({"type": "number", "multipleOf": 0.0123456789})"),
      test::grammar("root ::= root root root | \"a\""),
      test::grammar("root ::= a\na ::= b\nb ::= a"),
      test::grammar("root ::= root"),
      test::grammar("root ::= (root | \"\") (root | \"\") \"a\" | \"\""),
      test::grammar("root ::= " + repeated("(", 600) + "\"a\"" + repeated(")", 600)),
  };
  for (const constrain::Source& source : sources) {
    const auto begin = std::chrono::steady_clock::now();
    std::string outcome = "answered";
    try {
      Matcher m = test::matcher_of(source);
      for (int i = 0; i < 20; ++i) m.append("a");
      m.mask();
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      outcome = e.what();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 2.0 * test::kSlowdown) << source.text.substr(0, 60) << ": " << outcome;
  }
}

}  // namespace
}  // namespace vitrine
