#include "metrics/score_tokenize.h"

#include <array>
#include <utility>

#include "metrics/score_text.h"

namespace vitrine {
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
