#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/temp_folder.h"

namespace vitrine::test {
namespace {

const std::vector<std::string> kNames = {"gemma-2b", "gemma-7b", "gemma-2-2b", "gpt2", "gpt2-xl", "llama-2-7b"};

TEST(Nearest, CorrectsMisspeltNames) {
  EXPECT_EQ(nearest("gemma-2b", kNames), "gemma-2b");
  EXPECT_EQ(nearest("gema-2b", kNames), "gemma-2b");
  EXPECT_EQ(nearest("gtp2", kNames), "gpt2") << "a swap counts as one edit";
  EXPECT_EQ(nearest("GPT2-XL", kNames), "gpt2-xl");
  EXPECT_EQ(nearest("gemma2-2b", kNames), "gemma-2b") << "the first among equals";
  EXPECT_EQ(nearest("lama-2-7", kNames), "llama-2-7b");
}

TEST(Nearest, FindsNothingIfNoNameIsSimilar) {
  EXPECT_EQ(nearest("mistral", kNames), "");
  EXPECT_EQ(nearest("", kNames), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest(std::string(100'000, 'g'), kNames), "");
  EXPECT_EQ(did_you_mean("mistral", kNames), "");
  EXPECT_EQ(did_you_mean("gpt3", kNames), "; did you mean gpt2?");
}

TEST(Nearest, SuggestsAFileOfTheFolder) {
  const TempFolder folder;
  write_file(folder / "tokenizer.json", "");
  const std::string expected = "; did you mean " + (folder / "tokenizer.json") + "?";
  EXPECT_EQ(did_you_mean_file(folder / "tokeniser.json"), expected);
  EXPECT_EQ(did_you_mean_file(folder / "tokeniser.json/"), expected);
  EXPECT_EQ(did_you_mean_file(folder / "zzz"), "");
  EXPECT_EQ(did_you_mean_file(folder / "none/tokenizer.json"), "");
  EXPECT_EQ(did_you_mean_file(""), "");
  EXPECT_EQ(did_you_mean_file("/"), "");
}

}  // namespace
}  // namespace vitrine::test
