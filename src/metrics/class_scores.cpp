#include "metrics/class_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vitrine {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double quotient(double a, double b) { return b > 0 ? a / b : 0; }
double as_double(std::int64_t n) { return static_cast<double>(n); }

/// What is right and wrong about a label.
struct Counts {
  std::int64_t right = 0, predicted = 0, actual = 0;

  double f1() const { return quotient(2 * as_double(right), as_double(predicted + actual)); }
};

double mean_f1(const std::vector<Counts>& labels, bool only_those_that_occur) {
  double sum = 0;
  std::int64_t n = 0;
  for (const Counts& label : labels) {
    if (only_those_that_occur && label.predicted + label.actual == 0) continue;
    sum += label.f1();
    ++n;
  }
  return quotient(sum, as_double(n));
}

double micro_f1(const std::vector<Counts>& labels) {
  Counts sum;
  for (const Counts& label : labels) {
    sum.right += label.right;
    sum.predicted += label.predicted;
    sum.actual += label.actual;
  }
  return sum.f1();
}

/// The labels of a text as 0 or 1 each: those that are predicted, or right.
std::vector<bool> chosen(const ClassPredictions& p, std::size_t i, bool is_truth) {
  const std::size_t n_labels = p.scores[i].size();
  std::vector<bool> result(n_labels);
  if (p.has_several) {
    for (std::size_t k = 0; k < n_labels; ++k) result[k] = (is_truth ? p.truths[i][k] : p.scores[i][k]) > 0.5;
  } else {
    const auto best = std::max_element(p.scores[i].begin(), p.scores[i].end()) - p.scores[i].begin();
    result[is_truth ? static_cast<std::size_t>(p.truths[i][0]) : static_cast<std::size_t>(best)] = true;
  }
  return result;
}

double auc_of_label(const ClassPredictions& p, std::span<const std::size_t> numbers, std::size_t label) {
  std::vector<double> scores, is_positive;
  for (const std::size_t i : numbers) {
    scores.push_back(p.scores[i][label]);
    is_positive.push_back(chosen(p, i, true)[label] ? 1 : 0);
  }
  return area_under_curve(scores, is_positive);
}

double auc(const ClassPredictions& p, std::span<const std::size_t> numbers, std::size_t n_labels) {
  if (!p.has_several && n_labels == 2) return auc_of_label(p, numbers, 1);
  double sum = 0;
  for (std::size_t label = 0; label < n_labels; ++label) sum += auc_of_label(p, numbers, label);
  return sum / static_cast<double>(n_labels);
}

/// The ranks of values, from 1; equal ones have the mean of theirs.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order = all_numbers(values.size());
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end + 1) / 2;
  }
  return ranks;
}

/// The letter and the type of a tag: B and PER of B-PER.
std::pair<char, std::string> parts_of(const std::string& tag) {
  if (tag.empty()) return {'O', "_"};
  std::string type = tag.substr(1);
  if (const std::size_t dash = type.find('-'); dash != type.npos) type.erase(0, dash + 1);
  return {tag[0], type.empty() ? "_" : type};
}

bool ends_span(char before, char tag, bool is_other_type) {
  if (before == 'E' || before == 'S') return true;
  if ((before == 'B' || before == 'I') && (tag == 'B' || tag == 'S' || tag == 'O')) return true;
  return before != 'O' && before != '.' && is_other_type;
}

bool begins_span(char before, char tag, bool is_other_type) {
  if (tag == 'B' || tag == 'S') return true;
  if ((before == 'E' || before == 'S' || before == 'O') && (tag == 'E' || tag == 'I')) return true;
  return tag != 'O' && tag != '.' && is_other_type;
}

}  // namespace

double area_under_curve(std::span<const double> scores, std::span<const double> is_positive) {
  const std::vector<double> ranks = ranks_of(scores);
  double sum = 0, n_positive = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (is_positive[i] > 0.5) sum += ranks[i], ++n_positive;
  }
  const double n_negative = static_cast<double>(ranks.size()) - n_positive;
  if (n_positive == 0 || n_negative == 0) return kNone;
  return (sum - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative);
}

std::vector<NamedScore> class_scores(const ClassPredictions& p, std::span<const std::size_t> numbers) {
  const std::size_t n_labels = p.scores.empty() ? 0 : p.scores.front().size();
  std::vector<Counts> labels(n_labels);
  std::int64_t n_right = 0;
  for (const std::size_t i : numbers) {
    const std::vector<bool> predicted = chosen(p, i, false), actual = chosen(p, i, true);
    n_right += predicted == actual ? 1 : 0;
    for (std::size_t k = 0; k < n_labels; ++k) {
      labels[k].right += predicted[k] && actual[k] ? 1 : 0;
      labels[k].predicted += predicted[k] ? 1 : 0;
      labels[k].actual += actual[k] ? 1 : 0;
    }
  }
  return {{"accuracy", as_double(n_right) / static_cast<double>(numbers.size())},
          {"f1_macro", mean_f1(labels, !p.has_several)},
          {"f1_micro", micro_f1(labels)},
          {"auc", auc(p, numbers, n_labels)}};
}

double pearson(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  double mean_a = 0, mean_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    mean_a += a[i] / n;
    mean_b += b[i] / n;
  }
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / (std::sqrt(aa) * std::sqrt(bb)) : kNone;
}

double spearman(std::span<const double> a, std::span<const double> b) { return pearson(ranks_of(a), ranks_of(b)); }

std::vector<NamedScore> number_scores(std::span<const double> predicted, std::span<const double> truths,
                                      std::span<const std::size_t> numbers) {
  std::vector<double> a, b;
  double squares = 0;
  for (const std::size_t i : numbers) {
    a.push_back(predicted[i]);
    b.push_back(truths[i]);
    squares += (predicted[i] - truths[i]) * (predicted[i] - truths[i]);
  }
  return {
      {"mse", squares / static_cast<double>(numbers.size())}, {"pearson", pearson(a, b)}, {"spearman", spearman(a, b)}};
}

std::vector<TypedSpan> spans_of(std::span<const std::string> tags) {
  std::vector<TypedSpan> spans;
  char before = 'O';
  std::string type_before;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i <= std::ssize(tags); ++i) {
    const auto [tag, type] = parts_of(i < std::ssize(tags) ? tags[static_cast<std::size_t>(i)] : "O");
    const bool is_other = type != type_before;
    if (ends_span(before, tag, is_other)) spans.push_back({type_before, begin, i - 1});
    if (begins_span(before, tag, is_other)) begin = i;
    before = tag;
    type_before = type;
  }
  return spans;
}

TagCounts count_tags(std::span<const std::string> predicted, std::span<const std::string> truths) {
  const std::vector<TypedSpan> found = spans_of(predicted), wanted = spans_of(truths);
  TagCounts counts{0, std::ssize(found), std::ssize(wanted), 0, std::ssize(truths)};
  for (const TypedSpan& span : found) {
    counts.right_spans += std::find(wanted.begin(), wanted.end(), span) != wanted.end() ? 1 : 0;
  }
  for (std::size_t i = 0; i < truths.size(); ++i) counts.right_tags += predicted[i] == truths[i] ? 1 : 0;
  return counts;
}

std::vector<NamedScore> tag_scores(std::span<const TagCounts> texts, std::span<const std::size_t> numbers) {
  TagCounts sum;
  for (const std::size_t i : numbers) {
    sum.right_spans += texts[i].right_spans;
    sum.spans += texts[i].spans;
    sum.true_spans += texts[i].true_spans;
    sum.right_tags += texts[i].right_tags;
    sum.tags += texts[i].tags;
  }
  const double precision = quotient(as_double(sum.right_spans), as_double(sum.spans));
  const double recall = quotient(as_double(sum.right_spans), as_double(sum.true_spans));
  return {{"precision", precision},
          {"recall", recall},
          {"f1", quotient(2 * precision * recall, precision + recall)},
          {"accuracy", quotient(as_double(sum.right_tags), as_double(sum.tags))}};
}

}  // namespace vitrine
