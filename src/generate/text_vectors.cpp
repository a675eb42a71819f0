#include "generate/text_vectors.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/divide_by_length.h"
#include "base/error.h"
#include "generate/rerank.h"

namespace vitrine {
namespace {

/// The steps of the folder, changed as the options say.
TextSteps steps_with(const SentenceConfig& folder, const VectorOptions& options) {
  TextSteps steps = folder.steps;
  if (options.pooling) {
    const auto pool = std::find_if(steps.steps.begin(), steps.steps.end(),
                                   [](const TextStep& step) { return std::holds_alternative<PoolStep>(step); });
    if (pool == steps.steps.end()) throw Unsupported("--pool", "the folder has no Pooling whose mode could be another");
    std::get<PoolStep>(*pool).modes = {*options.pooling};
  }
  if (!options.normalize || *options.normalize == folder.normalize) return steps;
  if (*options.normalize) {
    steps.steps.emplace_back(NormalizeStep{steps.result, steps.result});
  } else {
    steps.steps.pop_back();
  }
  return steps;
}

/// Leaves the `most` largest elements; of equal ones the first.
void keep_largest(std::vector<float>& vector, std::int64_t most) {
  if (most >= std::ssize(vector)) return;
  std::vector<std::size_t> order(vector.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return vector[a] > vector[b]; });
  for (std::size_t i = static_cast<std::size_t>(most); i < order.size(); ++i) vector[order[i]] = 0;
}

void cut(TextVectors& vectors, std::int64_t d, bool normalizes) {
  vectors.d = d;
  cut_vector(vectors.values, d, normalizes);
}

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace

void cut_vector(std::vector<float>& vector, std::int64_t d, bool normalizes) {
  vector.resize(static_cast<std::size_t>(d));
  if (normalizes) divide_by_length(vector);
}

void read_vectors(const GenerateContext& context, const SentenceConfig& folder, const TextIds& texts,
                  const VectorOptions& options, const ReceiveVectors& receive) {
  const bool is_plain = folder.result() == TextValue::vector && !folder.is_sparse();
  if (options.dimensions && !is_plain) {
    throw Unsupported("--dimensions", "the model makes {} of a text, which are not cut",
                      folder.is_sparse() ? "weights of words" : "vectors of tokens, or scores");
  }
  const bool normalizes = options.normalize.value_or(folder.normalize);
  const TextSteps steps = steps_with(folder, options);
  read_values(context, steps, texts, options.max_rows, [&](std::size_t i, const Tensor& values) {
    TextVectors vectors{values.rows(), values.row_size(), {values.data, values.data + values.count()}};
    if (options.dimensions) {
      if (*options.dimensions > vectors.d) {
        throw BadInput("--dimensions", "expected at most {} (the vectors have so many), got {}", vectors.d,
                       *options.dimensions);
      }
      cut(vectors, *options.dimensions, normalizes);
    } else if (folder.dimensions) {
      cut(vectors, std::min(*folder.dimensions, vectors.d), false);
    }
    if (folder.most_words) keep_largest(vectors.values, *folder.most_words);
    receive(i, std::move(vectors));
  });
}

std::vector<WordWeight> sparse_of(std::span<const float> vector) {
  std::vector<WordWeight> weights;
  for (std::size_t i = 0; i < vector.size(); ++i) {
    if (vector[i] != 0) weights.push_back({static_cast<std::int32_t>(i), vector[i]});
  }
  return weights;
}

double similarity_of(Similarity similarity, const TextVectors& a, const TextVectors& b) {
  if (a.d != b.d) throw InternalError("similarity", "expected vectors of the same width, got {} and {}", a.d, b.d);
  if (similarity < Similarity::max_sim) return similarity_of(similarity, a.row(0), b.row(0));
  double sum = 0;
  for (std::int64_t i = 0; i < a.n && b.n > 0; ++i) {
    double most = -std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < b.n; ++j) most = std::max(most, product(a.row(i), b.row(j)));
    sum += most;
  }
  return similarity == Similarity::mean_max_sim && a.n > 0 ? sum / static_cast<double>(a.n) : sum;
}

}  // namespace vitrine
