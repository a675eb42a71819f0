#include "metrics/score_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

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

namespace {

bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
bool is_dot_or_comma(char32_t c) { return c == U'.' || c == U','; }

/// The ASCII punctuation that 13a always separates.
bool is_always_separate(char32_t c) {
  return c < 0x7F && c > U' ' && !is_digit(c) && !(c >= U'A' && c <= U'Z') && !(c >= U'a' && c <= U'z') && c != U'\'' &&
         c != U'-' && !is_dot_or_comma(c);
}

bool is_number(char32_t c) { return class_of(c) == CharacterClass::number; }
bool is_punct(char32_t c) { return class_of(c) == CharacterClass::punctuation; }
bool is_symbol(char32_t c) { return class_of(c) == CharacterClass::symbol; }

/// Replaces `from` by `to`, from left to right; does not search the replacements again.
std::u32string replace_all(std::u32string_view text, std::u32string_view from, std::u32string_view to) {
  std::u32string out;
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from)) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

/// Puts spaces around the characters for which `is_separate` is true.
template <class Separate>
std::u32string separate(std::u32string_view text, Separate is_separate) {
  std::u32string out;
  for (const char32_t c : text) is_separate(c) ? out.append({U' ', c, U' '}) : out.append({c});
  return out;
}

/// Puts spaces around one character of each matching pair of neighbors: its first or, if `second`, its second one. As
/// in a substitution with a regex, pairs are found from left to right and do not overlap.
template <class First, class Second>
std::u32string separate_in_pairs(std::u32string_view text, First is_first, Second is_second, bool second) {
  std::u32string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !is_first(text[i]) || !is_second(text[i + 1])) {
      out.push_back(text[i]);
      continue;
    }
    const char32_t a = text[i], b = text[++i];
    second ? out.append({a, U' ', b, U' '}) : out.append({U' ', a, U' ', b});
  }
  return out;
}

std::u32string tokenized_13a(std::u32string_view line) {
  static constexpr std::array<std::pair<std::u32string_view, std::u32string_view>, 5> kReplaced = {
      {{U"<skipped>", U""}, {U"&quot;", U"\""}, {U"&amp;", U"&"}, {U"&lt;", U"<"}, {U"&gt;", U">"}}};
  std::u32string text(line);
  for (const auto& [from, to] : kReplaced) text = replace_all(text, from, to);
  const auto is_not_digit = [](char32_t c) { return !is_digit(c); };
  text = separate(U" " + text + U" ", is_always_separate);
  text = separate_in_pairs(text, is_not_digit, is_dot_or_comma, true);
  text = separate_in_pairs(text, is_dot_or_comma, is_not_digit, false);
  return separate_in_pairs(
      text, is_digit, [](char32_t c) { return c == U'-'; }, true);
}

std::u32string tokenized_intl(std::u32string_view line) {
  const auto is_no_number = [](char32_t c) { return !is_number(c); };
  const std::u32string text = separate_in_pairs(line, is_no_number, is_punct, true);
  return separate(separate_in_pairs(text, is_punct, is_no_number, false), is_symbol);
}

}  // namespace

std::string_view name_of(ScoreTokenizer tokenizer) {
  static constexpr std::string_view kNames[] = {"13a", "intl", "char", "none"};
  return kNames[static_cast<std::size_t>(tokenizer)];
}

std::u32string score_tokenized(std::u32string_view line, ScoreTokenizer tokenizer) {
  switch (tokenizer) {
    case ScoreTokenizer::v13a:
      return tokenized_13a(line);
    case ScoreTokenizer::intl:
      return tokenized_intl(line);
    case ScoreTokenizer::character:
      return separate(line, [](char32_t) { return true; });
    case ScoreTokenizer::none:
      break;
  }
  return std::u32string(line);
}

}  // namespace vitrine
