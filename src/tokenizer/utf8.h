// UTF-8: where characters end in text that arrives in pieces and may be broken; code points of valid text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace vitrine {

/// Bytes of the character at the front of `text`: 1 to 4; 1 where the front cannot become a character whatever follows
/// (overlong forms, surrogates and values beyond U+10FFFF included); 0 where `text` ends inside a character or is
/// empty.
inline std::size_t character_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0xC2 || lead > 0xF4) return 1;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The first continuation byte is what rules out overlong forms (E0, F0), surrogates (ED) and the far end (F4).
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return 0;
    if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF)) return 1;
  }
  return length;
}

/// Bytes at the end of `text`, 0 to 3, that are the beginning of a character of which the rest may still come.
inline std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t length = 1; length <= 3 && length <= text.size(); ++length) {
    const std::string_view tail = text.substr(text.size() - length);
    const bool continuation = (static_cast<unsigned char>(tail[0]) & 0xC0) == 0x80;
    if (!continuation) return character_length(tail) == 0 ? length : 0;
  }
  return 0;
}

/// Bytes of the longest prefix of `text` that does not end inside a character.
inline std::size_t whole_prefix(std::string_view text) { return text.size() - incomplete_tail(text); }

/// The code point of the whole, valid character at the front of `text`.
inline std::uint32_t code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[i])}; };
  if (byte(0) < 0x80) return byte(0);
  if (byte(0) < 0xE0) return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
  if (byte(0) < 0xF0) return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

/// Bytes of the valid character that begins with `lead`.
inline std::size_t length_by_lead(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline void append_code_point(std::uint32_t c, std::string& out) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

/// Bytes of the longest prefix of `text` that is valid UTF-8.
inline std::size_t valid_prefix(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    std::uint64_t eight;
    if (text.size() - i >= 8 && (std::memcpy(&eight, text.data() + i, 8), (eight & 0x8080808080808080ULL) == 0)) {
      i += 8;  // ASCII
      continue;
    }
    const std::size_t length = character_length(text.substr(i));
    if (length == 0 || (length == 1 && static_cast<unsigned char>(text[i]) >= 0x80)) return i;
    i += length;
  }
  return i;
}

inline bool is_valid_utf8(std::string_view text) { return valid_prefix(text) == text.size(); }

}  // namespace vitrine
