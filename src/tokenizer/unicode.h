// Properties of characters and normalization forms, for the normalizers and pre-tokenizers of tokenizer.json.
//
// Source: Unicode Standard Annex 15 (normalization forms) and 29 (grapheme clusters), with the tables of utf8proc.
// unicode_tables.h overrides them where `tokenizers`, which has tables of other Unicode versions, differs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vitrine {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// Takes linear time for any `text`. Here and below, `text` must be valid UTF-8.
std::string normalized(std::string_view text, NormalForm form);

/// Converts each character independently of its neighbors.
std::string lowercase(std::string_view text);

/// The number of bytes of the extended grapheme cluster at the front of `text`, which must not be empty.
std::size_t grapheme_length(std::string_view text);

/// Prepares `text` for a regex library that knows Unicode 14 or later: replaces newer characters by older ones with the
/// same category and the same number of bytes. Returns std::nullopt if there are none.
std::optional<std::string> with_older_characters(std::string_view text);

bool is_white_space(std::uint32_t c);      ///< Unicode's White_Space.
bool is_numeric(std::uint32_t c);          ///< Nd, Nl or No.
bool is_punctuation(std::uint32_t c);      ///< P*, and ASCII except letters, digits, space and control characters.
bool is_combining_mark(std::uint32_t c);   ///< M*.
bool is_nonspacing_mark(std::uint32_t c);  ///< Mn.
bool is_control(std::uint32_t c);          ///< Cc, Cf, Co.
bool is_word_character(std::uint32_t c);   ///< \w: Alphabetic, M*, Nd, Pc, and the two joiners.

}  // namespace vitrine
