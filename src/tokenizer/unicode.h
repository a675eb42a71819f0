// Properties of characters and normalization forms, as the normalizers and pre-tokenizers of tokenizer.json need them.
//
// Source: Unicode Standard Annex 15 (normalization forms) and 29 (grapheme clusters); tables by utf8proc.
// What `tokenizers` says otherwise of a character, because its tables are of another version of Unicode, stands in
// unicode_tables.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vitrine {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// Linear in the length of `text`, whatever it holds. `text` must be valid UTF-8, here and below.
std::string normalized(std::string_view text, NormalForm form);

/// Each character for itself: no rule looks at its neighbours.
std::string lowercase(std::string_view text);

/// Bytes of the extended grapheme cluster at the front of `text`, which is not empty.
std::size_t grapheme_length(std::string_view text);

/// For a regex of a library that knows Unicode 14 at least: `text` with older characters in place of newer ones, of the
/// same category and as many bytes each. None where `text` holds no newer one.
std::optional<std::string> with_older_characters(std::string_view text);

bool is_white_space(std::uint32_t c);      ///< Unicode's White_Space.
bool is_numeric(std::uint32_t c);          ///< Nd, Nl or No.
bool is_punctuation(std::uint32_t c);      ///< P*, and everything in ASCII that is no letter, digit, space or control.
bool is_combining_mark(std::uint32_t c);   ///< M*.
bool is_nonspacing_mark(std::uint32_t c);  ///< Mn.
bool is_control(std::uint32_t c);          ///< Cc, Cf, Co.
bool is_word_character(std::uint32_t c);   ///< \w: Alphabetic, M*, Nd, Pc, and the two joiners.

}  // namespace vitrine
