// UTF-8: the boundaries of characters in text that may be incomplete or invalid, and the code points of valid text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace vitrine {

/// The number of bytes of the character at the front of `text`, 1 to 4. Returns 1 if the front is invalid whatever
/// follows, which includes overlong forms, surrogates and values beyond U+10FFFF, and 0 if `text` is empty or ends
/// inside the character.
inline std::size_t character_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0xC2 || lead > 0xF4) return 1;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The range of the first continuation byte excludes overlong forms (E0, F0), surrogates (ED) and large values (F4).
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return 0;
    if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF)) return 1;
  }
  return length;
}

/// Whether `byte` is a continuation byte of a character.
inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// The offset at which the last character of `text` begins. `text` must not be empty.
inline std::size_t last_character(std::string_view text) {
  std::size_t i = text.size() - 1;
  while (i > 0 && is_continuation(text[i])) --i;
  return i;
}

/// The number of bytes, 0 to 3, of an incomplete character at the end of `text`.
inline std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t length = 1; length <= 3 && length <= text.size(); ++length) {
    const std::string_view tail = text.substr(text.size() - length);
    if (!is_continuation(tail[0])) return character_length(tail) == 0 ? length : 0;
  }
  return 0;
}

/// The length of the longest prefix of `text` that does not end inside a character.
inline std::size_t whole_prefix(std::string_view text) { return text.size() - incomplete_tail(text); }

/// The code point of the character at the front of `text`, which must be complete and valid.
inline std::uint32_t code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[i])}; };
  if (byte(0) < 0x80) return byte(0);
  if (byte(0) < 0xE0) return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
  if (byte(0) < 0xF0) return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

/// The number of bytes of the valid character that begins with `lead`.
inline std::size_t length_by_lead(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Calls `visit(code_point, character)` for each character of `text`, which must be valid UTF-8.
template <class Visit>
void for_each_character(std::string_view text, Visit&& visit) {
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view character = text.substr(i, length_by_lead(text[i]));
    visit(code_point(character), character);
    i += character.size();
  }
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

/// The length of the longest prefix of `text` that is valid UTF-8.
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
