// What each attention head attends to, as a few numbers per head.
//
//   previous    mean p[t, t − 1]                                            over queries t ≥ 1
//   first       mean p[t, 0]                                                over queries t ≥ 1
//   current     mean p[t, t]
//   duplicate   mean Σ p[t, s] over s < t with ids[s] = ids[t]              over the queries that have such an s
//   induction   mean Σ p[t, s + 1] over s < t with ids[s] = ids[t]          over the same queries
//   distance    mean Σ p[t, s] · (t − s)
//   entropy     mean −Σ p log p, in nats
//   nothing     mean 1 − Σ p, the share of the head's sink
//
// p is attn.hook_pattern of the text in one pass. Sums are in double precision. Source of the induction score: Olsson
// et al. 2022, "In-context learning and induction heads".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "generate/context.h"

namespace vitrine {

/// Means over no query are absent.
struct HeadScores {
  int layer = 0;
  std::int64_t head = 0;
  std::int64_t kv_head = 0;            ///< The K/V head that it reads.
  std::optional<std::int64_t> window;  ///< Of its layer, in tokens.
  std::optional<double> previous, first;
  double current = 0;
  std::optional<double> duplicate, induction;
  double distance = 0;
  double entropy = 0;
  std::optional<double> nothing;  ///< Of heads with a sink.
};

/// The scores of the heads of one layer of a stack from its pattern `[H, T, T]`.
std::vector<HeadScores> scores_of(const Tensor& pattern, std::span<const std::int32_t> ids, int layer,
                                  const StackConfig& config, ThreadPool& pool);

/// All heads of the model's own stack, layer by layer, from one pass over the text, which ends at the last pattern.
/// Throws BadInput as text_pass() does, Unsupported for a model without attention.
std::vector<HeadScores> head_scores(const GenerateContext& context, const Tokens& tokens);

}  // namespace vitrine
