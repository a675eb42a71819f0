#include "metrics/chrf.h"

#include <array>
#include <string>
#include <vector>

#include "metrics/ngram_matches.h"

namespace vitrine {
namespace {

constexpr std::size_t kCharacterOrders = 6, kWordOrders = 2;
constexpr double kBetaSquared = 4;

bool is_ascii_punctuation(char32_t c) {
  return (c >= U'!' && c <= U'/') || (c >= U':' && c <= U'@') || (c >= U'[' && c <= U'`') || (c >= U'{' && c <= U'~');
}

/// The words of a line. One ASCII punctuation mark is a word of its own, at the end of a word or else at its beginning:
/// "(hi)" becomes "(hi" and ")".
std::vector<std::u32string_view> chrf_words(std::u32string_view line) {
  std::vector<std::u32string_view> words;
  for (const std::u32string_view word : split_words(line)) {
    const std::size_t length = word.size();
    const std::size_t cut = length > 1 && is_ascii_punctuation(word.back())    ? length - 1
                            : length > 1 && is_ascii_punctuation(word.front()) ? 1
                                                                               : length;
    words.push_back(word.substr(0, cut));
    if (cut < length) words.push_back(word.substr(cut));
  }
  return words;
}

std::u32string without_white_space(std::u32string_view line) {
  std::u32string out;
  for (const std::u32string_view word : split_words(line)) out += word;
  return out;
}

/// As match_ngrams(), but the n-grams of the hypothesis do not count if the reference has none.
NgramMatches match_if_comparable(std::u32string_view hypothesis, std::u32string_view reference, std::size_t n) {
  NgramMatches counts = match_ngrams(hypothesis, reference, n);
  if (counts.reference == 0) counts.hypothesis = 0;
  return counts;
}

double f_score(std::span<const NgramMatches> counts) {
  double precision = 0, recall = 0;
  int orders = 0;
  for (const NgramMatches& c : counts) {
    if (c.hypothesis == 0 || c.reference == 0) continue;
    precision += static_cast<double>(c.matches) / static_cast<double>(c.hypothesis);
    recall += static_cast<double>(c.matches) / static_cast<double>(c.reference);
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  return 100 * ((1 + kBetaSquared) * precision * recall / (kBetaSquared * precision + recall));
}

}  // namespace

Chrf corpus_chrf(std::span<const LinePair> lines, bool lowercase) {
  std::array<NgramMatches, kCharacterOrders + kWordOrders> counts;
  for (const LinePair& line : lines) {
    const std::u32string hypothesis = line_characters(line.hypothesis, lowercase);
    const std::u32string reference = line_characters(line.reference, lowercase);
    const std::u32string h = without_white_space(hypothesis), r = without_white_space(reference);
    for (std::size_t i = 0; i < kCharacterOrders; ++i) counts[i] += match_if_comparable(h, r, i + 1);
    const auto [h_words, r_words] = number_words(chrf_words(hypothesis), chrf_words(reference));
    for (std::size_t i = 0; i < kWordOrders; ++i)
      counts[kCharacterOrders + i] += match_if_comparable(h_words, r_words, i + 1);
  }
  return {f_score(std::span(counts).first(kCharacterOrders)), f_score(counts)};
}

}  // namespace vitrine
