// Files of tiktoken ranks.
#include "tokenizer/read/tiktoken.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>

#include "base/error.h"
#include "tokenizer/outside.h"

namespace vitrine {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr SpecialTokens kApply = SpecialTokens::apply;

std::string base64(std::string_view bytes) {
  const char* const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < group.size() ? static_cast<unsigned char>(group[k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) text += k <= group.size() ? digits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

/// A rank for every byte, then `pieces`.
std::string file(const std::vector<std::string>& pieces = {}) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    text += fmt::format("{} {}\n", base64(std::string(1, static_cast<char>(byte))), byte);
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) text += fmt::format("{} {}\n", base64(pieces[i]), 256 + i);
  return text;
}

template <class E>
void expect_refused(const std::string& text, const char* message, const char* pattern = "[^ ]+| +") {
  EXPECT_THAT([&] { parse_tiktoken(text, pattern, "m"); }, ThrowsMessage<E>(HasSubstr(message)));
}

TEST(Tiktoken, MergesTheLowestRankFirst) {
  const auto tokenizer = parse_tiktoken(file({"bc", "ab", "abc"}), "[^ ]+| +", "m");
  EXPECT_EQ(tokenizer->encode("abc", kApply), Ids({258}));
  EXPECT_EQ(tokenizer->encode("abb", kApply), Ids({257, 'b'}));
  EXPECT_EQ(tokenizer->encode("xabc", kApply), Ids({'x', 258}));
  EXPECT_EQ(tokenizer->encode("ab c", kApply), Ids({257, ' ', 'c'}));
  EXPECT_EQ(tokenizer->encode("\xFF", kApply), Ids({255}));
  EXPECT_EQ(tokenizer->encode("", kApply), Ids());
  EXPECT_EQ(tokenizer->decode(Ids({257, 255, 'c'})),
            "ab\xFF"
            "c");
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  EXPECT_FALSE(tokenizer->bos());
  EXPECT_TRUE(tokenizer->stop_ids().empty());
  EXPECT_THROW(tokenizer->bytes(259), BadInput);
}

TEST(Tiktoken, RequiresAPattern) { expect_refused<BadInput>(file(), "got 256; give the regex with --pattern", ""); }

TEST(Tiktoken, RefusesTextThatThePatternDoesNotMatch) {
  const auto tokenizer = parse_tiktoken(file(), "[a-z]+", "m");
  EXPECT_THAT([&] { tokenizer->encode("ab cd", kApply); }, ThrowsMessage<BadInput>(HasSubstr("gap at byte 2")));
}

TEST(Tiktoken, RefusesInvalidFiles) {
  for (const char* line : {"YQ= 300", "YQ 300", "Y=Q= 300", "YR== 300", "!!== 300", " 300", "= 300", "YWI", "YWI= "}) {
    expect_refused<BadCheckpoint>(file() + line + "\n", "at line 257");
  }
  expect_refused<BadCheckpoint>(file() + "YWI= x\n", "expected a rank");
  expect_refused<BadCheckpoint>(file() + "YWI= -1\n", "expected a rank");
  expect_refused<BadCheckpoint>(file() + "YWI= 99999999999\n", "expected a rank");
  expect_refused<BadCheckpoint>(file() + "YWI= 5\n", "at line 257 appears twice");
  expect_refused<BadCheckpoint>(file() + "YQ== 300\n", "at line 257 appears twice");
  expect_refused<BadCheckpoint>("YQ== 0\n", "expected a rank for every byte");
  expect_refused<BadCheckpoint>(file({std::string(5000, 'a')}), "1 to 4096 bytes");
}

TEST(Tiktoken, Llama3GivesTheReferencesIds) {
  OUTSIDE_DATA_OR_SKIP(path, "tokenizers/llama3/tokenizer.model");
  const auto llama3 = load_tokenizer(path);
  EXPECT_EQ(llama3->vocab_size(), 128000);
  expect_vectors(*llama3, test::outside_data("tokenizers/vectors.json"), "llama3");
  for (const char* unit : {"a", " ", "\xF0\x9F\xA6\x99", "0", "'s"}) {
    const std::string text = long_text(unit);
    const auto start = std::chrono::steady_clock::now();
    llama3->encode(text, kApply);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 10) << unit;
  }
}

}  // namespace
}  // namespace vitrine
