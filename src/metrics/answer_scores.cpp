#include "metrics/answer_scores.h"

#include <algorithm>
#include <map>

#include "metrics/score_text.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

bool is_punctuation(char c) {
  const auto u = static_cast<unsigned char>(c);
  return (u >= '!' && u <= '/') || (u >= ':' && u <= '@') || (u >= '[' && u <= '`') || (u >= '{' && u <= '~');
}

bool is_of_word(char32_t c) {
  const CharacterClass kind = class_of(c);
  return kind != CharacterClass::punctuation && kind != CharacterClass::symbol && !is_separator(c);
}

/// The text with a space in place of each word a, an and the.
std::u32string without_articles(std::u32string_view text) {
  std::u32string result;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    const bool is_word = is_of_word(text[begin]);
    for (end = begin + 1; end < text.size() && is_word && is_of_word(text[end]);) ++end;
    const std::u32string_view part = text.substr(begin, end - begin);
    const bool is_article = part == U"a" || part == U"an" || part == U"the";
    result += is_article ? U" " : part;
  }
  return result;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

double f1_of(const std::vector<std::string>& answer, const std::vector<std::string>& truth) {
  if (answer.empty() || truth.empty()) return answer.empty() && truth.empty() ? 1 : 0;
  std::map<std::string, int> counts;
  for (const std::string& word : truth) ++counts[word];
  double same = 0;
  for (const std::string& word : answer) same += counts[word]-- > 0 ? 1 : 0;
  if (same == 0) return 0;
  const double precision = same / static_cast<double>(answer.size()), recall = same / static_cast<double>(truth.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

std::string comparable_answer(std::string_view answer) {
  std::string text = full_lowercase(answer);
  std::erase_if(text, is_punctuation);
  const std::u32string characters = without_articles(line_characters(text, false));
  std::string result;
  for (const std::u32string_view word : split_words(characters)) {
    if (!result.empty()) result += ' ';
    for (const char32_t c : word) append_code_point(c, result);
  }
  return result;
}

std::vector<NamedScore> answer_scores(std::string_view answer, std::span<const std::string> truths) {
  const std::string own = comparable_answer(answer);
  if (truths.empty()) return {{"exact_match", own.empty() ? 1.0 : 0.0}, {"f1", own.empty() ? 1.0 : 0.0}};
  double exact = 0, f1 = 0;
  for (const std::string& truth : truths) {
    const std::string right = comparable_answer(truth);
    exact = std::max(exact, own == right ? 1.0 : 0.0);
    f1 = std::max(f1, f1_of(words_of(own), words_of(right)));
  }
  return {{"exact_match", exact}, {"f1", f1}};
}

}  // namespace vitrine
