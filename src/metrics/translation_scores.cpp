#include "metrics/translation_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/math.h"

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

namespace {

constexpr std::size_t kOrders = 4;

/// The p_n in percent, smoothed; all 0 without a match, and 0 for orders without n-grams.
std::array<double, kOrders> smoothed_precisions(const std::array<NgramMatches, kOrders>& counts) {
  std::array<double, kOrders> precisions{};
  if (counts[0].matches == 0) return precisions;  // a longer n-gram cannot match either
  double smoothing = 1;
  for (std::size_t i = 0; i < kOrders && counts[i].hypothesis > 0; ++i) {
    const auto total = static_cast<double>(counts[i].hypothesis);
    if (counts[i].matches == 0) {
      smoothing *= 2;
      precisions[i] = 100 / (smoothing * total);
    } else {
      precisions[i] = 100 * static_cast<double>(counts[i].matches) / total;
    }
  }
  return precisions;
}

/// exp of the mean logarithm; 0 if a value is 0.
double geometric_mean(const std::array<double, kOrders>& values) {
  double sum = 0;
  for (const double value : values) {
    if (value == 0) return 0;
    sum += math::log(value);
  }
  return math::exp(sum / static_cast<double>(values.size()));
}

}  // namespace

std::string BleuSettings::signature() const {
  return fmt::format("nrefs:1|case:{}|eff:no|tok:{}|smooth:exp", lowercase ? "lc" : "mixed", name_of(tokenizer));
}

Bleu corpus_bleu(std::span<const LinePair> lines, const BleuSettings& settings) {
  const auto tokenized = [&](std::string_view line) {
    return score_tokenized(line_characters(line, settings.lowercase), settings.tokenizer);
  };
  std::array<NgramMatches, kOrders> counts;
  for (const LinePair& line : lines) {
    const std::u32string hypothesis = tokenized(line.hypothesis), reference = tokenized(line.reference);
    const auto [h, r] = number_words(split_words(hypothesis), split_words(reference));
    for (std::size_t i = 0; i < kOrders; ++i) counts[i] += match_ngrams(h, r, i + 1);
  }

  Bleu bleu;
  bleu.hypothesis_length = counts[0].hypothesis;
  bleu.reference_length = counts[0].reference;
  if (bleu.hypothesis_length < bleu.reference_length) {
    const double ratio = static_cast<double>(bleu.reference_length) / static_cast<double>(bleu.hypothesis_length);
    bleu.brevity_penalty = bleu.hypothesis_length == 0 ? 0 : math::exp(1 - ratio);
  }
  bleu.precisions = smoothed_precisions(counts);
  bleu.score = bleu.brevity_penalty * geometric_mean(bleu.precisions);
  return bleu;
}

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
