#include "tokenizer/read/base64.h"

#include <algorithm>
#include <array>

namespace vitrine {

std::optional<Base64> decode_base64(std::string_view digits) {
  static const std::array<std::int8_t, 256> values = [] {
    std::array<std::int8_t, 256> table;
    table.fill(-1);
    std::int8_t value = 0;
    for (const char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")) {
      table[static_cast<unsigned char>(c)] = value++;
    }
    return table;
  }();
  Base64 result;
  result.bytes.reserve(digits.size() / 4 * 3 + 3);
  int n_bits = 0;
  for (const char c : digits) {
    const std::int8_t value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    result.rest = result.rest << 6 | static_cast<std::uint32_t>(value);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    result.bytes += static_cast<char>(result.rest >> n_bits);
    result.rest &= (1U << n_bits) - 1;
  }
  return result;
}

std::optional<std::string> decode_padded_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  text.remove_suffix(text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0);
  std::optional<Base64> decoded = decode_base64(text);
  if (!decoded || decoded->rest != 0) return std::nullopt;
  return std::move(decoded->bytes);
}

std::string encode_base64(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text((bytes.size() + 2) / 3 * 4, '=');
  std::size_t to = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 3, to += 4) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = static_cast<std::uint32_t>(bytes[i]) << 16;
    if (n > 1) bits |= static_cast<std::uint32_t>(bytes[i + 1]) << 8;
    if (n > 2) bits |= bytes[i + 2];
    for (std::size_t k = 0; k <= n; ++k) text[to + k] = kDigits[bits >> (18 - 6 * k) & 63U];
  }
  return text;
}

}  // namespace vitrine
