#include "base/error.h"

#include <gtest/gtest.h>

namespace vitrine::test {
namespace {

TEST(Error, NamesThePlaceThenTheProblem) {
  EXPECT_STREQ(BadInput("file", "expected {}, got {}", 1, "x").what(), "[file] expected 1, got x");
  EXPECT_STREQ(Interrupted().what(), "interrupted");
}

TEST(Error, DoesNotFormatItsArguments) {
  EXPECT_STREQ(BadCheckpoint("a{}b", "tensor {}", "{0} {} {x:").what(), "[a{}b] tensor {0} {} {x:");
}

TEST(Error, IsOneLine) {
  const std::string name = "a\nb\r\tc\033[31m\x7f" + std::string(1, '\0') + "d";
  EXPECT_STREQ(BadCheckpoint(name, "tensor {}", name).what(), "[a?b??c?[31m??d] tensor a?b??c?[31m??d");
  EXPECT_STREQ(BadInput("ä", "€ {}", "𝄞").what(), "[ä] € 𝄞");
}

TEST(Error, ShortensALongName) {
  std::string name;
  for (int i = 0; i < 1'000'000; ++i) name += "€";
  const std::string text = BadCheckpoint("file", "tensor {} is missing", name).what();
  EXPECT_LE(text.size(), 10'000u);
  EXPECT_TRUE(text.starts_with("[file] tensor €€€")) << text.substr(0, 40);
  const std::size_t cut = text.find(" ... ");
  ASSERT_NE(cut, std::string::npos);
  EXPECT_EQ(text.substr(cut - 3, 3), "€") << "no character is cut in two";
}

}  // namespace
}  // namespace vitrine::test
