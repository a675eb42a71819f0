// Texts around values: white space, and marks, which are texts in <…> or […] without white space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vitrine::answer {

constexpr std::string_view kSpace = " \t\r\n\f\v";

/// The text without white space at its ends, at its beginning, at its end.
std::string_view stripped(std::string_view text);
std::string_view left_stripped(std::string_view text);
std::string_view right_stripped(std::string_view text);

/// Removes `literal` from the beginning of `text`; false if it is not there.
bool take(std::string_view& text, std::string_view literal);

/// What the beginning of a text says of a literal: it is there, it is not, or more text decides.
enum class Match : std::uint8_t { no, partial, yes };

/// Whether `text` begins with `literal`. `is_last`: no more text comes, so the answer is never partial.
Match match(std::string_view text, std::string_view literal, bool is_last);

/// The first place, from `from` on, where `text` has `literal`, or ends with a beginning of it; the end of `text`:
/// none.
std::size_t find_begun(std::string_view text, std::string_view literal, std::size_t from);

/// The text after the last `end` in it; the whole text if there is none.
std::string_view after_last(std::string_view text, std::string_view end);

/// The end of the mark at the beginning of `text`; 0: none.
std::size_t mark_end(std::string_view text);
/// The mark at the end of `text`; "": none.
std::string_view last_mark(std::string_view text);
/// `at`, or the beginning of the mark, or of the character, that `at` divides.
std::size_t mark_boundary(std::string_view text, std::size_t at);

}  // namespace vitrine::answer
