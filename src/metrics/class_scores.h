// Scores of classifiers and taggers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "metrics/named_score.h"

namespace vitrine {

/// What a classifier says of texts, and what is right. By text.
struct ClassPredictions {
  bool has_several = false;                 ///< A text may have any number of labels.
  std::vector<std::vector<double>> scores;  ///< Of each label: probabilities.
  std::vector<std::vector<double>> truths;  ///< One number, that of the label; or 0 or 1 for each label.
};

/// accuracy, f1_macro, f1_micro and auc, as scikit-learn has them.
///
/// One label of several: the largest score is predicted; F1 is over the labels that occur among truths or predictions.
/// AUC is that of label 1 of two, else the mean over labels of each against the rest (multi_class="ovr"); NaN if a
/// label, or all others, have no text. Several labels: those with a score above ½ are predicted; accuracy is the
/// fraction of texts whose labels are all right; F1 and AUC are over all labels.
std::vector<NamedScore> class_scores(const ClassPredictions& predictions, std::span<const std::size_t> numbers);

/// The area under the curve of true over false positives: the probability that a positive example has the higher score,
/// where equal scores count half. NaN without positive or negative examples.
double area_under_curve(std::span<const double> scores, std::span<const double> is_positive);

/// mse, pearson and spearman of predicted numbers.
std::vector<NamedScore> number_scores(std::span<const double> predicted, std::span<const double> truths,
                                      std::span<const std::size_t> numbers);
/// The correlation of values; NaN if those of one list are all equal.
double pearson(std::span<const double> a, std::span<const double> b);
/// That of their ranks, of which equal values have the mean.
double spearman(std::span<const double> a, std::span<const double> b);

/// A part of a text that tags mark: its type, and its first and last token.
struct TypedSpan {
  std::string type;
  std::int64_t first = 0, last = 0;

  bool operator==(const TypedSpan&) const = default;
};
/// The spans of tags such as O, B-PER, I-PER, E-PER, S-PER, as conlleval and seqeval find them: a span also begins
/// where the type changes.
std::vector<TypedSpan> spans_of(std::span<const std::string> tags);

/// The counts of a text.
struct TagCounts {
  std::int64_t right_spans = 0, spans = 0, true_spans = 0, right_tags = 0, tags = 0;
};
TagCounts count_tags(std::span<const std::string> predicted, std::span<const std::string> truths);
/// precision, recall and f1 of spans, and the accuracy of tags. A quotient without a divisor is 0.
std::vector<NamedScore> tag_scores(std::span<const TagCounts> texts, std::span<const std::size_t> numbers);

}  // namespace vitrine
