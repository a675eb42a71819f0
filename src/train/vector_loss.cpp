#include "train/vector_loss.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/math.h"

namespace vitrine {
namespace {

using Example = Batch::Example;

constexpr double kShortest = 1e-12;  // of a vector that is divided by its length, as in torch

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// y += factor · x.
void add(double factor, std::span<const double> x, std::span<double> y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] += factor * x[i];
}

/// The first `width` elements of vectors, and the gradients of a loss. Products are those of the vectors divided by
/// their lengths, or, if `is_exact`, as they are.
class Vectors {
 public:
  Vectors(std::span<const double> outputs, std::size_t stride, std::size_t width, bool is_exact)
      : stride_(stride), width_(width), values_(outputs.size() / stride * width), gradients_(values_.size()) {
    for (std::size_t i = 0; i < size(); ++i) {
      const auto from = outputs.subspan(i * stride, width);
      lengths_.push_back(is_exact ? 1 : std::max(std::sqrt(dot(from, from)), kShortest));
      is_constant_.push_back(is_exact || lengths_.back() == kShortest);
      for (std::size_t k = 0; k < width; ++k) values_[i * width + k] = from[k] / lengths_.back();
    }
  }

  std::size_t size() const { return values_.size() / width_; }
  std::size_t width() const { return width_; }
  std::span<const double> of(std::int64_t i) const { return std::span(values_).subspan(place(i), width_); }
  std::span<double> gradient(std::int64_t i) { return std::span(gradients_).subspan(place(i), width_); }
  double product(std::int64_t a, std::int64_t b) const { return dot(of(a), of(b)); }
  /// Adds the gradient of a product, whose derivative of the loss is `slope`.
  void add_product(std::int64_t a, std::int64_t b, double slope) {
    if (slope == 0) return;
    add(slope, of(b), gradient(a));
    add(slope, of(a), gradient(b));
  }
  /// Adds the gradients of the vectors, times `factor`, to `to`.
  void add_gradients(double factor, std::span<double> to) {
    for (std::size_t i = 0; i < size(); ++i) {
      const auto number = static_cast<std::int64_t>(i);
      const std::span<const double> n = of(number), dn = gradient(number);
      const double along = is_constant_[i] ? 0 : dot(n, dn);
      for (std::size_t k = 0; k < width_; ++k) to[i * stride_ + k] += factor * (dn[k] - along * n[k]) / lengths_[i];
    }
  }

 private:
  std::size_t place(std::int64_t i) const { return static_cast<std::size_t>(i) * width_; }

  std::size_t stride_, width_;
  std::vector<double> values_, gradients_, lengths_;
  std::vector<bool> is_constant_;  // lengths that do not depend on the vector
};

/// The pieces of a batch by their meaning: anchors, and the documents, of which number i is anchor i's own.
struct Ranking {
  std::vector<std::int64_t> anchors, documents;

  explicit Ranking(std::span<const Example> examples) {
    const std::int64_t first = examples.front().first_piece;
    for (const Example& example : examples) anchors.push_back(example.first_piece - first);
    for (std::int64_t column = 1; column < examples.front().n_pieces; ++column) {
      for (const std::int64_t anchor : anchors) documents.push_back(anchor + column);
    }
  }
};

/// log Σ exp of `scores`, of which `slopes` receives `factor` · the softmax.
double log_sum(std::span<const double> scores, double factor, std::span<double> slopes) {
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) sum += math::exp(score - most);
  for (std::size_t i = 0; i < scores.size(); ++i) slopes[i] += factor * math::exp(scores[i] - most) / sum;
  return most + math::log(sum);
}

double multiple_negatives(const TextObjective& o, std::span<const Example> examples, Vectors& vectors) {
  const Ranking ranking(examples);
  const std::size_t n = ranking.anchors.size(), m = ranking.documents.size();
  const auto mean = 1 / static_cast<double>(n);
  std::vector<double> scores(n * m), slopes(n * m);  // of each anchor and document
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      scores[i * m + j] = o.scale * vectors.product(ranking.anchors[i], ranking.documents[j]);
    }
  }
  const double share = o.is_symmetric ? mean / 2 : mean;  // of each direction
  double loss = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t own = i * m + i;
    loss += share * log_sum(std::span(scores).subspan(i * m, m), share, std::span(slopes).subspan(i * m, m));
    loss -= mean * scores[own];
    slopes[own] -= mean;
  }
  for (std::size_t j = 0; j < n && o.is_symmetric; ++j) {  // from a positive to all anchors
    std::vector<double> column(n), column_slopes(n);
    for (std::size_t i = 0; i < n; ++i) column[i] = scores[i * m + j];
    loss += share * log_sum(column, share, column_slopes);
    for (std::size_t i = 0; i < n; ++i) slopes[i * m + j] += column_slopes[i];
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      vectors.add_product(ranking.anchors[i], ranking.documents[j], o.scale * slopes[i * m + j]);
    }
  }
  return loss;
}

/// The two pieces of each example.
std::int64_t first_of(std::span<const Example> examples, std::size_t i) {
  return examples[i].first_piece - examples.front().first_piece;
}

double cosent(const TextObjective& o, std::span<const Example> examples, Vectors& vectors) {
  const std::size_t n = examples.size();
  std::vector<double> scores(n), slopes(n), terms = {0};  // 0: e^0 = 1
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t piece = first_of(examples, i);
    scores[i] = o.scale * vectors.product(piece, piece + 1);
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (!(examples[i].labels[0] < examples[j].labels[0])) continue;
      terms.push_back(scores[i] - scores[j]);
      pairs.emplace_back(i, j);
    }
  }
  std::vector<double> weights(terms.size());
  const double loss = log_sum(terms, 1, weights);
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    slopes[pairs[k].first] += weights[k + 1];
    slopes[pairs[k].second] -= weights[k + 1];
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t piece = first_of(examples, i);
    vectors.add_product(piece, piece + 1, o.scale * slopes[i]);
  }
  return loss;
}

double cosine_similarity(std::span<const Example> examples, double count, Vectors& vectors) {
  double loss = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const std::int64_t piece = first_of(examples, i);
    const double error = vectors.product(piece, piece + 1) - examples[i].labels[0];
    loss += error * error / count;
    vectors.add_product(piece, piece + 1, 2 * error / count);
  }
  return loss;
}

/// The margins of an anchor's product with its positive over those with its negatives.
double margin_mse(std::span<const Example> examples, double count, Vectors& vectors) {
  double loss = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const std::int64_t anchor = first_of(examples, i);
    const double positive = vectors.product(anchor, anchor + 1);
    for (std::size_t k = 0; k < examples[i].labels.size(); ++k) {
      const std::int64_t negative = anchor + 2 + static_cast<std::int64_t>(k);
      const double error = positive - vectors.product(anchor, negative) - examples[i].labels[k];
      loss += error * error / count;
      vectors.add_product(anchor, anchor + 1, 2 * error / count);
      vectors.add_product(anchor, negative, -2 * error / count);
    }
  }
  return loss;
}

double loss_of(const TextObjective& o, std::span<const Example> examples, double count, Vectors& vectors) {
  switch (o.loss) {
    case TextLoss::multiple_negatives:
      return multiple_negatives(o, examples, vectors);
    case TextLoss::cosent:
      return cosent(o, examples, vectors);
    case TextLoss::cosine_similarity:
      return cosine_similarity(examples, count, vectors);
    case TextLoss::margin_mse:
      return margin_mse(examples, count, vectors);
    default:
      throw InternalError("vector_loss", "expected the loss of vectors");
  }
}

/// weight · Σ_k (mean of element k of some vectors)².
double add_flops(double weight, std::span<const std::int64_t> numbers, Vectors& vectors) {
  if (weight == 0) return 0;
  const auto n = static_cast<double>(numbers.size());
  std::vector<double> means(vectors.width());
  for (const std::int64_t i : numbers) add(1 / n, vectors.of(i), means);
  for (const std::int64_t i : numbers) add(2 * weight / n, means, vectors.gradient(i));
  return weight * dot(means, means);
}

}  // namespace

TextLossResult vector_loss(const TextObjective& objective, std::span<const Example> examples,
                           std::span<const double> outputs, std::int64_t width, double count) {
  const auto w = static_cast<std::size_t>(width);
  TextLossResult result{0, std::vector<double>(outputs.size())};
  if (examples.empty()) return result;
  const auto add_loss = [&](std::size_t n, double weight) {
    // The other losses of vectors of words compare cosines, too.
    const bool is_exact = objective.flops && objective.loss == TextLoss::multiple_negatives;
    Vectors vectors(outputs, w, n, is_exact || objective.loss == TextLoss::margin_mse);
    result.loss += weight * loss_of(objective, examples, count, vectors);
    vectors.add_gradients(weight, result.gradients);
  };
  if (objective.dimensions.empty()) add_loss(w, 1);
  for (std::size_t i = 0; i < objective.dimensions.size(); ++i) {
    add_loss(static_cast<std::size_t>(objective.dimensions[i]), objective.dimension_weights[i]);
  }
  if (objective.flops) {
    const Ranking ranking(examples);
    Vectors vectors(outputs, w, w, true);
    result.loss += add_flops(objective.flops->documents, ranking.documents, vectors);
    result.loss += add_flops(objective.flops->queries, ranking.anchors, vectors);
    vectors.add_gradients(1, result.gradients);
  }
  return result;
}

}  // namespace vitrine
