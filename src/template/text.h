// Python's strings: text as code points, and what its str methods know of characters. Text is UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::jinja {

/// The code point at byte `at` of `text`; moves `at` past it.
char32_t next_character(std::string_view text, std::size_t& at);
/// The byte at which the character before byte `end` begins.
std::size_t before_character(std::string_view text, std::size_t end);
void append_character(std::string& text, char32_t character);
std::int64_t count_characters(std::string_view text);
/// The byte at which the character with an index begins; the size of `text` if there are not that many.
std::size_t byte_of(std::string_view text, std::int64_t index);
/// The characters [begin, end) of `text`, each limited to its length.
std::string_view characters(std::string_view text, std::int64_t begin, std::int64_t end);
std::u32string code_points(std::string_view text);
inline bool is_ascii(char c) { return static_cast<signed char>(c) >= 0; }
bool is_ascii(std::string_view text);
bool is_utf8(std::string_view text);

bool is_space(char32_t character);
/// str.isprintable() of an assigned character. Others count as printable, because they differ between Unicode versions.
bool is_printable(char32_t character);

std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string title(std::string_view text);
std::string fold_case(std::string_view text);
std::string swap_case(std::string_view text);
std::string capitalize(std::string_view text);
/// str.isupper() or str.islower(): no letter has the other case, and one has this.
bool has_case(std::string_view text, bool is_upper);

/// Removes white space, or the characters in `*characters`, from the sides of `text`.
std::string_view strip(std::string_view text, bool left, bool right, const std::string_view* characters = nullptr);
/// The lines of `text` as str.splitlines() divides it.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);

}  // namespace vitrine::jinja
