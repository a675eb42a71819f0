// What each head attends to, or reads of its state, as a few numbers per head.
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
//   half-life   ln 2 / −mean log decay, in tokens                           of a recurrence
//   size        ‖S[t]‖, of the state after each token                       of a recurrence
//
// p is attn.hook_pattern of the text in one pass; of a recurrence, whose weights have signs and no fixed sum, it is
// |M[t, s]| / Σ_s |M[t, s]| of hook_effective_attention, of Mamba summed over channels. Sums are in double precision.
// Source of the induction score: Olsson et al. 2022, "In-context learning and induction heads".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "generate/context.h"
#include "inspect/site_write.h"

namespace vitrine {

/// Means over no query are absent.
struct HeadScores {
  int layer = 0;
  std::string_view sublayer = "attn";  ///< As sites call it: `attn`, `linear_attn`, `mixer`.
  std::int64_t head = 0;
  std::int64_t kv_head = 0;            ///< The head of keys that it reads.
  std::optional<std::int64_t> window;  ///< Of its layer, in tokens.
  std::optional<double> previous, first;
  double current = 0;
  std::optional<double> duplicate, induction;
  double distance = 0;
  double entropy = 0;
  std::optional<double> nothing;      ///< Of heads with a sink.
  std::optional<double> half_life{};  ///< Absent if nothing decays.
  std::vector<double> sizes{};        ///< Of a recurrence, after each token.
};

/// The scores of the heads of one layer of a stack from its pattern `[H, T, T]`.
std::vector<HeadScores> scores_of(const Tensor& pattern, std::span<const std::int32_t> ids, int layer,
                                  const StackConfig& config, ThreadPool& pool);

/// Whether there are heads that read a state.
bool has_recurrence(const Model& model);

/// Receives the weights `[H, T, T]` of a recurrence, whose rows add up to 1, unless they are all 0.
using ReceiveWeights = std::function<void(int layer, const Tensor& weights)>;

/// All heads of the model's own stack, layer by layer, from one pass over the text with these changes, which ends at
/// the last of them. Throws BadInput as text_pass() does, Unsupported for a model without heads, OutOfCapacity for a
/// text whose states take more than 4 GiB in one layer.
std::vector<HeadScores> head_scores(const GenerateContext& context, const Tokens& tokens,
                                    std::span<const SiteWrite> writes = {}, const ReceiveWeights& receive = {});

}  // namespace vitrine
