// Scores of translations: BLEU, chrF and chrF++.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "metrics/score_text.h"

namespace vitrine {

/// The n-grams that a hypothesis shares with its reference: what BLEU and chrF count.
struct NgramMatches {
  std::int64_t hypothesis = 0, reference = 0;  ///< N-grams of each text.
  std::int64_t matches = 0;                    ///< Those in both; each counts as often as in the text with fewer of it.

  NgramMatches& operator+=(const NgramMatches& other);
};

/// Counts the n-grams of two texts: of their characters, or of their words if the elements are numbers of words. Takes
/// time n · L log L for L elements.
NgramMatches match_ngrams(std::u32string_view hypothesis, std::u32string_view reference, std::size_t n);

/// Two texts with a number in place of each word; equal words have equal numbers.
std::pair<std::u32string, std::u32string> number_words(std::span<const std::u32string_view> hypothesis,
                                                       std::span<const std::u32string_view> reference);

// BLEU of a corpus with one reference per line.
//
//   p_n   the n-grams of the hypotheses that are also in their references, divided by all n-grams of the hypotheses
//   BP    1 if the hypotheses have at least as many tokens as the references (h ≥ r), else exp(1 − r / h)
//   BLEU  BP · exp((log p_1 + log p_2 + log p_3 + log p_4) / 4)
//
// Counts are summed over all lines before they are divided. If some n-grams match, but none of an order, that order has
// p_n = 1 / (2^k · n-grams) instead of 0; k is 1 for the first such order, 2 for the second (smoothing `exp`).
//
// Source: Papineni et al. 2002, BLEU: a Method for Automatic Evaluation of Machine Translation,
// https://aclanthology.org/P02-1040; Post 2018, A Call for Clarity in Reporting BLEU Scores,
// https://aclanthology.org/W18-6319. The numbers are those of sacreBLEU 2.6.0 with its default settings.

struct BleuSettings {
  ScoreTokenizer tokenizer = ScoreTokenizer::v13a;
  bool lowercase = false;

  /// The settings in sacreBLEU's notation: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp.
  std::string signature() const;
};

struct Bleu {
  double score = 0;                    ///< In percent. 0 if nothing matches, or no hypothesis has four tokens.
  std::array<double, 4> precisions{};  ///< p_1 to p_4 in percent; all 0 if nothing matches.
  double brevity_penalty = 1;
  std::int64_t hypothesis_length = 0, reference_length = 0;  ///< In tokens.
};

/// No lines have the score 0.
Bleu corpus_bleu(std::span<const LinePair> lines, const BleuSettings& settings);

// chrF and chrF++ of a corpus with one reference per line: the F-score of character n-grams, without white space, and
// of words.
//
//   P, R  the mean precision and recall of the n-grams of orders that occur in the corpus: 1 to 6 characters and, for
//         chrF++, 1 and 2 words
//   F     (1 + β²) · P · R / (β² · P + R) with β = 2: recall counts twice as much as precision
//
// Counts are summed over all lines before they are divided. Where a reference is too short for an order, the n-grams of
// its hypothesis do not count.
//
// Source: Popović 2015, chrF: character n-gram F-score for automatic MT evaluation, https://aclanthology.org/W15-3049;
// Popović 2017, chrF++: words helping character n-grams, https://aclanthology.org/W17-4770. The numbers are those of
// sacreBLEU 2.6.0 with its default settings, for chrF++ with word_order 2.

struct Chrf {
  double chrf = 0, chrf_plus_plus = 0;  ///< In percent.
};

/// No lines have the score 0.
Chrf corpus_chrf(std::span<const LinePair> lines, bool lowercase);

}  // namespace vitrine
