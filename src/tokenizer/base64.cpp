#include "tokenizer/base64.h"

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

}  // namespace vitrine
