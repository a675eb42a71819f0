#include "metrics/bleu.h"

#include <fmt/format.h>

#include "base/math.h"
#include "metrics/ngram_matches.h"

namespace vitrine {
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

}  // namespace vitrine
