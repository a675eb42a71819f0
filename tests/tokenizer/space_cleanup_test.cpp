// Spaces before punctuation: a text in parts loses those that the whole text loses, rule after rule.
#include "tokenizer/space_cleanup.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

namespace vitrine {
namespace {

/// clean_up_tokenization of transformers.
std::string expected(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) {
    for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

TEST(SpaceCleanup, RemovesTheSpacesOfBert) {
  EXPECT_EQ(clean_up_spaces("he 's ' so ' sure , is n't he ? I 've do not   ."),
            "he's'so'sure, isn't he? I've do not  .");
  EXPECT_EQ(clean_up_spaces(""), "");
  EXPECT_EQ(clean_up_spaces(" 'x n'"), " 'x n'");
}

TEST(SpaceCleanup, PartsAreCleanedUpLikeTheWhole) {
  std::mt19937 random(1);
  const std::string letters = "  ''..,!?nt msvera";
  for (int i = 0; i < 5000; ++i) {
    std::string text, got;
    SpaceCleanup cleanup;
    while (random() % 24 != 0) {
      std::string part;
      while (random() % 3 != 0) part += letters[random() % letters.size()];
      text += part;
      got += cleanup.push(part);
      ASSERT_TRUE(expected(text).starts_with(got)) << text;
    }
    got += cleanup.flush();
    ASSERT_EQ(got, expected(text)) << text;
    ASSERT_EQ(clean_up_spaces(text), got);
  }
}

}  // namespace
}  // namespace vitrine
