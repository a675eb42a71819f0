#include "metrics/score_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "metrics/newer_characters.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

constexpr std::string_view kCapitalSigma = "\u03A3", kSigma = "\u03C3", kFinalSigma = "\u03C2";

utf8proc_category_t category_of(std::uint32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

/// Whether a word continues through the character, whatever it is: marks, modifiers, apostrophes and dots. Source:
/// Unicode Standard, section 3.13, Case_Ignorable; Annex 29, MidLetter, MidNumLet and Single_Quote.
bool is_case_ignorable(std::uint32_t c) {
  static constexpr std::uint32_t kInsideWords[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,
                                                   0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                                   0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::binary_search(std::begin(kInsideWords), std::end(kInsideWords), c);
  }
}

/// Whether a character that is not case-ignorable has case. Source: Unicode Standard, section 3.13, Cased; the ranges
/// are those of Other_Lowercase and Other_Uppercase.
bool is_cased(std::uint32_t c) {
  const auto is_in = [c](std::uint32_t first, std::uint32_t last) { return first <= c && c <= last; };
  const utf8proc_category_t category = category_of(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT ||
         c == 0xAA || c == 0xBA || is_in(0x2160, 0x217F) || is_in(0x24B6, 0x24E9) || is_in(0x1F130, 0x1F149) ||
         is_in(0x1F150, 0x1F169) || is_in(0x1F170, 0x1F189);
}

/// Whether a letter comes before the Σ and none after it, in the same word.
bool is_final_sigma(std::string_view before, std::string_view after) {
  const auto last = [&] { return code_point(before.substr(last_character(before))); };
  while (!before.empty() && is_case_ignorable(last())) before = before.substr(0, last_character(before));
  if (before.empty() || !is_cased(last())) return false;
  while (!after.empty() && is_case_ignorable(code_point(after))) after.remove_prefix(length_by_lead(after[0]));
  return after.empty() || !is_cased(code_point(after));
}

}  // namespace

CharacterClass class_of(std::uint32_t c) {
  const NewerCharacters* newer =
      std::lower_bound(std::begin(kNewerCharacters), std::end(kNewerCharacters), c,
                       [](const NewerCharacters& range, std::uint32_t value) { return range.last < value; });
  if (newer != std::end(kNewerCharacters) && newer->first <= c) return newer->character_class;
  switch (utf8proc_category_string(static_cast<utf8proc_int32_t>(c))[0]) {
    case 'N':
      return CharacterClass::number;
    case 'P':
      return CharacterClass::punctuation;
    case 'S':
      return CharacterClass::symbol;
    default:
      return CharacterClass::other;
  }
}

bool is_separator(std::uint32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

std::vector<std::u32string_view> split_words(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  for (auto word = text.begin(); word != text.end();) {
    word = std::find_if_not(word, text.end(), is_separator);
    const auto end = std::find_if(word, text.end(), is_separator);
    if (word != end) words.emplace_back(word, end);
    word = end;
  }
  return words;
}

std::string full_lowercase(std::string_view text) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(kCapitalSigma); at != text.npos; at = text.find(kCapitalSigma, done)) {
    out += lowercase(text.substr(done, at - done));
    done = at + kCapitalSigma.size();
    out += is_final_sigma(text.substr(0, at), text.substr(done)) ? kFinalSigma : kSigma;
  }
  return out += lowercase(text.substr(done));
}

std::u32string line_characters(std::string_view line, bool lowercase) {
  const std::string lower = lowercase ? full_lowercase(line) : "";
  std::u32string characters;
  for_each_character(lowercase ? lower : line,
                     [&](std::uint32_t c, std::string_view) { characters.push_back(static_cast<char32_t>(c)); });
  while (!characters.empty() && is_separator(characters.back())) characters.pop_back();
  return characters;
}

}  // namespace vitrine
