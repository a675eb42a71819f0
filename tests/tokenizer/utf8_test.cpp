// The boundaries of characters, compared with a list of all valid characters.
#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

namespace vitrine {
namespace {

std::string encode_utf8(std::uint32_t c) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
}

TEST(Utf8, KnowsEveryCharacterAndEveryPrefixOfOne) {
  std::set<std::string> prefixes;
  for (std::uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const std::string text = encode_utf8(c);
    ASSERT_EQ(character_length(text), text.size()) << c;
    for (std::size_t n = 1; n < text.size(); ++n) prefixes.insert(text.substr(0, n));
  }
  // All strings of one and two bytes, and of three if the first byte begins a longer character.
  for (unsigned a = 0; a < 256; ++a) {
    const std::string one{static_cast<char>(a)};
    EXPECT_EQ(character_length(one) == 0, prefixes.count(one) > 0) << a;
    for (unsigned b = 0; b < 256; ++b) {
      const std::string two = one + static_cast<char>(b);
      EXPECT_EQ(character_length(two) == 0, prefixes.count(two) > 0) << a << ' ' << b;
      EXPECT_EQ(incomplete_tail(two) == 2, prefixes.count(two) > 0) << a << ' ' << b;
      for (unsigned c = 0x7F; c <= 0xC0 && a >= 0xE0; ++c) {
        const std::string three = two + static_cast<char>(c);
        EXPECT_EQ(incomplete_tail(three) == 3, prefixes.count(three) > 0) << a << ' ' << b << ' ' << c;
      }
    }
  }
}

TEST(Utf8, FindsIncompleteTails) {
  EXPECT_EQ(incomplete_tail(""), 0U);
  EXPECT_EQ(incomplete_tail("abc"), 0U);
  EXPECT_EQ(incomplete_tail("ab\xC3"), 1U);
  EXPECT_EQ(incomplete_tail("ab\xC3\xA9"), 0U);
  EXPECT_EQ(incomplete_tail("\xF0\x9F\x98"), 3U);
  EXPECT_EQ(incomplete_tail("\x80\x80\x80\x80"), 0U);
  EXPECT_EQ(whole_prefix("ab\xE2\x82"), 2U);
}

}  // namespace
}  // namespace vitrine
