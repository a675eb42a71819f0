// BLEU of a corpus with one reference per line.
//
//   p_n   the n-grams of the hypotheses that are also in their references, divided by all n-grams of the hypotheses
//   BP    1 if the hypotheses have at least as many tokens as the references (h ≥ r), else exp(1 − r / h)
//   BLEU  BP · exp((log p_1 + log p_2 + log p_3 + log p_4) / 4)
//
// Counts are summed over all lines before they are divided. If some n-grams match, but none of an order, that order has
// p_n = 1 / (2^k · n-grams) instead of 0; k is 1 for the first such order, 2 for the second (smoothing `exp`).
//
// Source: Papineni et al. 2002, BLEU: a Method for Automatic Evaluation of ExecutionContext Translation,
// https://aclanthology.org/P02-1040; Post 2018, A Call for Clarity in Reporting BLEU Scores,
// https://aclanthology.org/W18-6319. The numbers are those of sacreBLEU 2.6.0 with its default settings.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "metrics/score_text.h"
#include "metrics/score_tokenize.h"

namespace vitrine {

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

}  // namespace vitrine
