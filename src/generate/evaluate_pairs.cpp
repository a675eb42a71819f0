#include "generate/evaluate_pairs.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::size_t kMaxRows = 1 << 11;  // of a pass, unless one pair has more

void check(const GenerateContext& context, const TextPair& pair) {
  const std::int64_t context_length = context.model->config().max_seq_len;
  context.check_source(pair.source);
  context.check_ids(pair.target);
  if (pair.target.empty()) throw BadInput("eval", "expected at least one token in every target");
  if (static_cast<std::int64_t>(pair.target.size()) > context_length) {
    throw BadInput("eval", "a target has {} tokens, the model's context is {}", pair.target.size(), context_length);
  }
}

/// Σ −log p of the targets, in one pass.
double nats_of(const GenerateContext& context, std::span<const TextPair> pairs, std::int32_t start, Arena& arena) {
  Pass pass = context.make_pass(arena);
  std::vector<std::int32_t> inputs, targets, sources;
  for (const TextPair& pair : pairs) {
    pass.segments.push_back({static_cast<std::int64_t>(inputs.size()), static_cast<std::int64_t>(pair.target.size()), 0,
                             nullptr, static_cast<int>(pass.sources.size())});
    pass.sources.push_back({static_cast<std::int64_t>(sources.size()), static_cast<std::int64_t>(pair.source.size())});
    inputs.push_back(start);
    inputs.insert(inputs.end(), pair.target.begin(), pair.target.end() - 1);
    targets.insert(targets.end(), pair.target.begin(), pair.target.end());
    sources.insert(sources.end(), pair.source.begin(), pair.source.end());
  }
  const LossRequest loss{.targets = targets, .weights = {}};
  LossResult found;
  pass.training.loss = &loss;
  pass.training.result = &found;
  context.forward(pass, {inputs, {}, sources});
  return found.cross_entropy;
}

}  // namespace

PairEvaluation evaluate_pairs(const GenerateContext& context, std::span<const TextPair> pairs, std::int32_t start,
                              const ReportProgress& report) {
  for (const TextPair& pair : pairs) check(context, pair);
  PairEvaluation result;
  Arena arena;
  for (std::size_t first = 0; first < pairs.size();) {
    std::size_t end = first, rows = 0;
    const auto size = [&](std::size_t i) { return pairs[i].source.size() + pairs[i].target.size(); };
    while (end < pairs.size() && (end == first || rows + size(end) <= kMaxRows)) {
      rows += size(end);
      result.tokens += static_cast<std::int64_t>(pairs[end++].target.size());
    }
    result.nats += nats_of(context, pairs.subspan(first, end - first), start, arena);
    first = end;
    result.pairs = static_cast<std::int64_t>(first);
    if (report) report(result.pairs, static_cast<std::int64_t>(pairs.size()));
  }
  return result;
}

}  // namespace vitrine
