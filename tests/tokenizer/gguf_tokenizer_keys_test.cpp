// Tokenizers that were written to a GGUF file and read back give the same ids as the originals.
#include "tokenizer/read/gguf_tokenizer_keys.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/temp_folder.h"
#include "support/data.h"
#include "tokenizer/tokenizer.h"

namespace vitrine::test {
namespace {

const std::vector<std::string> kTexts = {
    "",
    "Hello, world!",
    "  two  spaces, and\ttabs\r\n\n\nlines ",
    "It's 1234567 o'clock; we'LL see x_1==y2?",
    "Grüße aus Köln — naïve café, 東京タワー 漢字かな交じり文, Привет, мир",
    "🦙👩‍👩‍👧‍👦 emoji \xF0\x9F\x8F\xB4",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa      bbbbbb \xE2\x96\x81 \xC2\xA0.",
};

/// llama.cpp's SentencePiece adds the dummy prefix again after a special token and the library does not, so the same
/// tokenizer in a GGUF file has other ids by definition.
const std::string kSpecial = "<|im_start|>user\nHi<|im_end|>\n<|endoftext|> there";

void expect_same_ids(const std::string& path, std::int64_t vocab_size, const std::vector<std::string>& texts) {
  if (path.empty()) GTEST_SKIP() << "VITRINE_DATA has no such tokenizer";
  const TempFolder folder;
  const auto original = load_tokenizer(path);
  const auto write = [&](const std::string& from, const std::string& to) {
    GgufWriter writer(to);
    writer.begin(gguf_tokenizer_keys(from, {vocab_size, std::nullopt, {}}));
    writer.commit();
    return load_tokenizer(to);
  };
  const auto written = write(path, folder / "a.gguf");
  const auto again = write(folder / "a.gguf", folder / "b.gguf");
  EXPECT_EQ(read_file(folder / "a.gguf").size(), read_file(folder / "b.gguf").size());
  EXPECT_EQ(written->vocab_size(), vocab_size);
  for (const std::string& text : texts) {
    for (const SpecialTokens policy : {SpecialTokens::apply, SpecialTokens::none}) {
      EXPECT_EQ(written->encode(text, policy), original->encode(text, policy)) << text;
      EXPECT_EQ(again->encode(text, policy), original->encode(text, policy)) << text;
    }
  }
}

std::vector<std::string> with_special() {
  std::vector<std::string> texts = kTexts;
  texts.push_back(kSpecial);
  return texts;
}

TEST(GgufTokenizerKeys, KeepTheIdsOfSentencePiece) {
  expect_same_ids(outside_data("tokenizers/llama2/tokenizer.model"), 32000, kTexts);
}

TEST(GgufTokenizerKeys, KeepTheIdsOfByteLevelBpe) {
  expect_same_ids(outside_data("tokenizers/qwen2/tokenizer.json"), 151936, with_special());
}

TEST(GgufTokenizerKeys, KeepTheIdsOfVocabAndMerges) {
  expect_same_ids(outside_data("tokenizers/gpt2"), 50257, with_special());
}

TEST(GgufTokenizerKeys, KeepTheIdsOfByteFallback) {
  expect_same_ids(outside_data("tokenizers/llama2/tokenizer.json"), 32000, kTexts);
  expect_same_ids(outside_data("tokenizers/small/tiny_bpe_metaspace_tokenizer.json"), 1024, with_special());
}

TEST(GgufTokenizerKeys, RefuseWhatGgufCannotRepresent) {
  const std::string folder = outside_data("tokenizers");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no tokenizers";
  const auto why = [&](const std::string& path, std::int64_t vocab_size = 1 << 18) {
    return message_of<Error>([&] { gguf_tokenizer_keys(folder + "/" + path, {vocab_size, std::nullopt, {}}); });
  };
  EXPECT_THAT(why("small/tiny_wordpiece_tokenizer.json"), testing::HasSubstr("cannot be written to GGUF"));
  EXPECT_THAT(why("llama3/tokenizer.model"), testing::HasSubstr("cannot be written"));
  EXPECT_THAT(why("llama2/tokenizer.model", 31999), testing::HasSubstr("31999"));
  EXPECT_THAT(why("qwen2/tokenizer.json", 1000), testing::HasSubstr("1000"));
}

}  // namespace
}  // namespace vitrine::test
