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
    case Similarity::max_sim:
    case Similarity::mean_max_sim:
      break;  // of vectors of tokens (text_vectors.h)
  }
  throw InternalError("similarity", "expected a function of two vectors");
}

bool reads_pairs(const ModelConfig& model, const SentenceConfig& folder) {
  return folder.has_modules ? folder.result() == TextValue::scores : model.task.has_value();
}

namespace {

/// The scores that a pair gets.
std::int64_t n_labels(const ModelConfig& model, const SentenceConfig& folder) {
  if (!folder.has_modules || folder.steps.source == TextSteps::Source::outputs) {
    const auto& head = model.task;
    if (!head || head->task != TaskHead::Task::classify)
      throw Unsupported("rerank", "the model has no labels of texts");
    return head->n_labels();
  }
  for (auto step = folder.steps.steps.rbegin(); step != folder.steps.steps.rend(); ++step) {
    const auto* const dense = std::get_if<DenseStep>(&*step);
    if (dense != nullptr && dense->to == TextValue::scores) return dense->map.weight.view.rows;
  }
  return 1;  // of LogitScore
}

}  // namespace

ScoreFunction rank_function(const ModelConfig& model, const SentenceConfig& folder) {
  if (!reads_pairs(model, folder)) throw Unsupported("rerank", "the model does not read pairs of texts");
  const std::int64_t n = n_labels(model, folder);
  const bool answers = n == 2 && !folder.has_modules && model.task->labels == std::vector<std::string>{"yes", "no"};
  if (answers) return ScoreFunction::softmax;
  if (n != 1) throw Unsupported("rerank", "the model has {} labels of texts: one score would order documents", n);
  return folder.score.value_or(ScoreFunction::sigmoid);
}

RankMethod rank_method(const ModelConfig& model, const SentenceConfig& folder) {
  if (reads_pairs(model, folder)) {
    rank_function(model, folder);
    return RankMethod::pairs;
  }
  if (!folder.has_modules && model.has_head && !model.encoder && !is_bidirectional(model)) {
    throw Unsupported("rerank", "the model continues texts: it has neither a label nor modules.json for a ranking");
  }
  return RankMethod::vectors;
}

bool makes_vectors(const ModelConfig& model, const SentenceConfig& folder) {
  return folder.has_modules ? folder.result() != TextValue::scores : !model.task;
}

void read_scores(const GenerateContext& context, const SentenceConfig& folder, const TextIds& pairs,
                 std::int64_t max_rows, const ReceiveOutputs& receive) {
  if (folder.has_modules) return read_values(context, folder.steps, pairs, max_rows, receive);
  read_outputs(context, pairs, max_rows, receive);
}

std::vector<std::size_t> descending(std::span<const float> scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  return order;
}

}  // namespace vitrine
