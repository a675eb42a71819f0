// Corrupted tokenizer files of every binary format load or throw; they never crash, hang or exhaust memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/gguf.h"
#include "support/gguf_file.h"
#include "tokenizer/outside.h"
#include "tokenizer/read/gguf_vocab.h"
#include "tokenizer/read/sentencepiece.h"
#include "tokenizer/read/tiktoken.h"
#include "tokenizer/spm_file.h"

namespace vitrine {
namespace {

using Parse = std::unique_ptr<const Tokenizer> (*)(const std::string&);

std::unique_ptr<const Tokenizer> parse_spm(const std::string& file) {
  return make_sentencepiece_tokenizer(parse_sentencepiece_model(std::as_bytes(std::span(file)), "f"));
}
std::unique_ptr<const Tokenizer> parse_gguf(const std::string& file) {
  return make_gguf_tokenizer(GgufMetadata::parse(std::as_bytes(std::span(file)), "f"));
}
std::unique_ptr<const Tokenizer> parse_ranks(const std::string& file) { return parse_tiktoken(file, "[^ ]+| +", "f"); }

/// A file that loads must also encode and decode.
void load_and_use(Parse parse, const std::string& file) {
  try {
    const auto tokenizer = parse(file);
    const std::string text = "the caf\xC3\xA9 <s>\xFF\xF0\x9F\xA6\x99 ab  12</s>\n<0x41>";
    for (const SpecialTokens policy : {SpecialTokens::apply, SpecialTokens::none}) {
      tokenizer->decode(tokenizer->encode(text, policy));
    }
  } catch (const Error&) {
  }
}

void attack(Parse parse, const std::string& file) {
  ASSERT_NO_THROW(parse(file));
  for (std::size_t size = 0; size < file.size(); size += 1 + size / 512) load_and_use(parse, file.substr(0, size));
  std::mt19937_64 rng(20240607);
  for (int round = 0; round < 3000; ++round) {
    std::string corrupted = file;
    for (int flips = 0; flips <= round % 4; ++flips) {
      const auto at = static_cast<std::size_t>(rng() % file.size());
      corrupted[at] = static_cast<char>(rng());
    }
    load_and_use(parse, corrupted);
  }
}

TEST(HostileTokenizers, SentencePiece) {
  for (const int kind : {1, 2}) {
    spm::Model model;
    model.kind = kind;
    model.byte_fallback = true;
    for (const char* text : {"\u2581", "t", "h", "e", "th", "the", "\u2581the", "\xC3\xA9"}) {
      model.pieces.push_back({text, static_cast<float>(-static_cast<int>(model.pieces.size()))});
    }
    model.pieces.push_back({"<go>", 0, spm::kUser});
    model.pieces.push_back({"ca", -1, spm::kUnused});
    for (int byte = 0; byte < 256; ++byte) model.pieces.push_back({fmt::format("<0x{:02X}>", byte), 0, spm::kByte});
    attack(parse_spm, model.file());
  }
}

TEST(HostileTokenizers, Gguf) {
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>", "\u2581", "t", "h", "th"};
  test::GgufFile file;
  file.add("general.name", "phi3").add("tokenizer.ggml.model", "llama").add("tokenizer.ggml.tokens", texts);
  file.add("tokenizer.ggml.scores", std::vector<float>(texts.size(), -1));
  file.add("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 3, 1, 1, 1, 4});
  attack(parse_gguf, file.add("tokenizer.ggml.add_eos_token", true).bytes());
}

TEST(HostileTokenizers, Tiktoken) {
  std::string file;
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (unsigned byte = 0; byte < 256; ++byte) {
    file += fmt::format("{}{}== {}\n", digits[byte >> 2], digits[byte << 4 & 63], byte);
  }
  attack(parse_ranks, file + "YWI= 256\nYWJj 257\n");
}

TEST(HostileTokenizers, LoadLargeCounts) {
  // Half a million empty strings, and the longest pieces allowed, load quickly.
  test::GgufFile file;
  file.add("tokenizer.ggml.model", "llama");
  file.add("tokenizer.ggml.tokens", std::vector<std::string>(500'000));
  load_and_use(parse_gguf, file.bytes());
  std::string ranks;
  for (int i = 1; i < 3000; ++i)
    ranks += std::string(static_cast<std::size_t>(i) / 3 * 4, 'Y') + fmt::format(" {}\n", i);
  load_and_use(parse_ranks, ranks);
  spm::Model model;
  for (int i = 1; i < 2000; ++i) model.pieces.push_back({std::string(static_cast<std::size_t>(i) * 2, 'a'), -1.0F});
  load_and_use(parse_spm, model.file());
}

TEST(HostileTokenizers, SmallModelsOfOutsideData) {
  OUTSIDE_DATA_OR_SKIP(bpe, "tokenizers/small/tiny_spm_bpe.model");
  attack(parse_spm, read_all(bpe));
  attack(parse_spm, read_all(test::outside_data("tokenizers/small/tiny_spm.model")));
  attack(parse_spm, read_all(test::outside_data("tokenizers/small/tiny_spm_bytefallback.model")));
}

}  // namespace
}  // namespace vitrine
