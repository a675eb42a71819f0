// Base64 (RFC 4648).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vitrine {

struct Base64 {
  std::string bytes;
  std::uint32_t rest = 0;  ///< The value of the last bits, which do not form a byte.
};

/// Decodes digits without padding. Returns std::nullopt if there are other characters.
std::optional<Base64> decode_base64(std::string_view digits);

/// Decodes digits with padding. Accepts only the canonical encoding: groups of four, no other bits set.
std::optional<std::string> decode_padded_base64(std::string_view text);

/// With padding.
std::string encode_base64(std::span<const unsigned char> bytes);

}  // namespace vitrine
