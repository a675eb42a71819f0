#include "metrics/ngram_matches.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace vitrine {
namespace {

std::vector<std::u32string_view> sorted_ngrams(std::u32string_view text, std::size_t n) {
  std::vector<std::u32string_view> ngrams;
  for (std::size_t i = 0; i + n <= text.size(); ++i) ngrams.push_back(text.substr(i, n));
  std::sort(ngrams.begin(), ngrams.end());
  return ngrams;
}

}  // namespace

NgramMatches& NgramMatches::operator+=(const NgramMatches& other) {
  hypothesis += other.hypothesis;
  reference += other.reference;
  matches += other.matches;
  return *this;
}

NgramMatches match_ngrams(std::u32string_view hypothesis, std::u32string_view reference, std::size_t n) {
  const auto h = sorted_ngrams(hypothesis, n), r = sorted_ngrams(reference, n);
  NgramMatches counts{static_cast<std::int64_t>(h.size()), static_cast<std::int64_t>(r.size())};
  for (auto a = h.begin(), b = r.begin(); a != h.end() && b != r.end();) {
    const auto order = *a <=> *b;
    if (order == 0) ++counts.matches;
    if (order <= 0) ++a;
    if (order >= 0) ++b;
  }
  return counts;
}

std::pair<std::u32string, std::u32string> number_words(std::span<const std::u32string_view> hypothesis,
                                                       std::span<const std::u32string_view> reference) {
  std::unordered_map<std::u32string_view, char32_t> numbers;
  const auto numbered = [&](std::span<const std::u32string_view> words) {
    std::u32string text;
    for (const std::u32string_view word : words) {
      text.push_back(numbers.emplace(word, static_cast<char32_t>(numbers.size())).first->second);
    }
    return text;
  };
  std::u32string first = numbered(hypothesis);
  return {std::move(first), numbered(reference)};
}

}  // namespace vitrine
