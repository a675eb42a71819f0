#include "generate/rerank.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace vitrine {

double similarity_of(Similarity similarity, std::span<const float> a, std::span<const float> b) {
  double product = 0, squares_a = 0, squares_b = 0, squares = 0, distance = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    product += x * y;
    squares_a += x * x;
    squares_b += y * y;
    squares += (x - y) * (x - y);
    distance += std::abs(x - y);
  }
  switch (similarity) {
    case Similarity::cosine:
      return squares_a > 0 && squares_b > 0 ? product / (std::sqrt(squares_a) * std::sqrt(squares_b)) : 0;
    case Similarity::dot:
      return product;
    case Similarity::euclidean:
      return -std::sqrt(squares);
    case Similarity::manhattan:
      return -distance;
  }
  throw InternalError("similarity", "unknown function");
}

ScoreFunction rank_function(const TaskHead& head, const SentenceConfig& folder) {
  if (head.task != TaskHead::Task::classify || head.n_labels() != 1) {
    throw Unsupported("rerank", "the model has {} labels of texts: one score would order documents", head.n_labels());
  }
  return folder.score.value_or(ScoreFunction::sigmoid);
}

std::vector<std::size_t> descending(std::span<const float> scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  return order;
}

}  // namespace vitrine
