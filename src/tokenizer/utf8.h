// Where characters end in UTF-8, for text that arrives in pieces and may be broken.
#pragma once

#include <cstddef>
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

}  // namespace vitrine
