// Python's strings: text as code points, and what its str methods know of characters.
//
// Text is UTF-8 in which lone surrogates may occur, as in Python's str; a rendering that contains one fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::jinja {

/// The code point at byte `at` of `text`; moves `at` past it.
char32_t next_character(std::string_view text, std::size_t& at);
void append_character(std::string& text, char32_t character);
std::int64_t count_characters(std::string_view text);
/// The byte at which the character with an index begins; the size of `text` if there are not that many.
std::size_t byte_of(std::string_view text, std::int64_t index);
/// The characters [begin, end) of `text`, each limited to its length.
std::string_view characters(std::string_view text, std::int64_t begin, std::int64_t end);
std::u32string code_points(std::string_view text);
std::string from_code_points(std::u32string_view text);
bool is_ascii(std::string_view text);
bool has_surrogate(std::string_view text);
bool is_utf8(std::string_view text);

/// Whether a character has one of the properties kAlpha, kSpace, … of unicode_tables.h.
bool has_property(char32_t character, std::uint32_t properties);
bool is_space(char32_t character);
/// `\w` of Python's re.
bool is_word(char32_t character);
/// The value of a decimal digit of any script, or -1.
int decimal_value(char32_t character);

std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string title(std::string_view text);
std::string fold_case(std::string_view text);
std::string swap_case(std::string_view text);
std::string capitalize(std::string_view text);

/// str.isupper() for kUpper, str.islower() for kLower: no letter has another case, and one has this.
bool has_case(std::string_view text, std::uint32_t property);

/// Removes white space, or the characters in `*characters`, from the sides of `text`.
std::string_view strip(std::string_view text, bool left, bool right, const std::string_view* characters = nullptr);
/// The lines of `text` as str.splitlines() divides it.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);

}  // namespace vitrine::jinja
