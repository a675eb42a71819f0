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
#pragma once

#include <span>

#include "metrics/score_text.h"

namespace vitrine {

struct Chrf {
  double chrf = 0, chrf_plus_plus = 0;  ///< In percent.
};

/// No lines have the score 0.
Chrf corpus_chrf(std::span<const LinePair> lines, bool lowercase);

}  // namespace vitrine
