// The training state of a pass: the tape, the loss, recompute (activation checkpointing), dropout.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "autograd/tape.h"
#include "pass/dropout.h"
#include "tensor/param.h"

namespace vitrine {

/// factor · the logit of a token in a row of the pass, after scale and softcap.
struct LogitTerm {
  std::int64_t row = 0;
  std::int32_t id = 0;
  float factor = 1.0f;
};

/// The loss to compute: the target id of every row, and the coefficients of its terms.
struct LossRequest {
  /// `[T]`; or `[T − 1]` in a pass of one segment whose last row has no target.
  std::span<const std::int32_t> targets;
  std::span<const float> weights;  ///< The weight of each target; empty: all 1.
  float scale = 1.0f;              ///< Gradients are those of scale · (the weighted sum of all rows' losses).
  std::span<const std::int32_t>
      next_sentence{};  ///< The label (0 or 1) of each segment; empty: this loss is not added.
  float next_sentence_scale = 1.0f;
  float label_smoothing = 0.0f;  ///< This fraction of the target is spread evenly over the vocabulary.
  float z_loss = 0.0f;           ///< z_loss · (log Z)² is added to each row's loss.

  /// Coefficient of the load-balancing loss of mixtures of experts, E · Σ_e f_e · P_e, averaged over sequences and
  /// summed over layers. f_e is the fraction of a sequence's choices that went to expert e, P_e the mean weight of that
  /// expert (Fedus et al. 2021).
  float balance = 0.0f;
  bool balance_over_layers = false;  ///< f and P are over all layers and tokens of the pass, f summed over ranks, as in
                                     ///< transformers' load_balancing_loss_func.
  /// Coefficient of (log Σ exp router logits)², averaged over tokens and summed over layers (Zoph et al. 2022).
  float router_z = 0.0f;
  /// Receives Σ weight · cross-entropy of each segment, and returns by what the gradients of its rows are multiplied:
  /// the weights then depend on the losses. With a tape, the head computes its logits twice, once for the losses and
  /// once for their gradients, unless those of all rows fit in one group. Not with z_loss. Empty: all 1.
  std::function<std::vector<float>(std::span<const double> of_segments)> weigh{};
  /// Instead of cross-entropies: gradients are those of the sum of these terms. There are no targets then.
  std::vector<LogitTerm> logits{};
  /// Instead of cross-entropies: the gradients of all logits, `[T, vocab_size]`, from a loss that is computed
  /// elsewhere.
  std::span<const float> logit_gradients{};
  /// Instead of cross-entropies: the gradients of the outputs of a task head, `[n, labels]`.
  std::span<const float> output_gradients{};
  bool counts_choices = false;  ///< Of experts, for LossResult::choices_of.
  float router_scale = 1.0f;  ///< The `scale` of the router's losses, which are means over rows, summed over segments.
};

/// Whether the gradients of the logits are given, and not those of cross-entropies.
inline bool gives_gradients(const LossRequest& loss) { return !loss.logits.empty() || !loss.logit_gradients.empty(); }

/// The losses of a forward. A pass adds to them.
struct LossResult {
  double cross_entropy = 0;  ///< Σ weight · cross-entropy, nats.
  double next_sentence = 0;  ///< Σ cross-entropy of the next sentences, nats.
  double z_squares = 0;      ///< Σ weight · (log Z)².
  double balance_sum = 0;    ///< E · Σ f · P, summed over segments and layers.
  double router_z_sum = 0;   ///< The mean of (log Z)² of the router, summed over segments and layers.

  /// For balance_over_layers: the number of choices and the sum of weights of each expert, and the number of rows,
  /// summed over layers.
  std::vector<double> choices{}, choice_weights{};
  std::int64_t routed_rows = 0;
  /// The number of choices of each expert, by the correction of its router.
  std::map<const Param*, std::vector<std::int64_t>> choices_of{};

  /// E · Σ f · P over all layers.
  double balance_of_layers() const;
};

/// Follows a pass from block to block, so that the weights and gradients of a block have to exist only while it runs.
class BlockEvents {
 public:
  enum class Way : std::uint8_t { forward, backward };

  virtual ~BlockEvents() = default;
  /// Called before the block's first op.
  virtual void begin_block(Stack stack, int layer, Way way) = 0;
  /// Called after the block's last op. The backward runs from the last block to the first, and all gradients of the
  /// block's parameters, and of those that come after them, are then complete.
  virtual void end_block(Stack stack, int layer, Way way) = 0;
};

struct TrainingRequest {
  Tape* tape = nullptr;               ///< Records the ops; their values stay in the arena until it is unwound.
  const LossRequest* loss = nullptr;  ///< With a tape, gradients start from this loss.
  LossResult* result = nullptr;       ///< Must be set if `loss` is.
  bool recompute = false;             ///< The tape keeps only the stream between blocks; backward reruns the blocks.
  Dropout dropout{};                  ///< Applies to the embedding, the sublayers' outputs and the attention pattern.
  float adapter_dropout = 0;          ///< The rate of dropout of x in B · A · x.
  /// The first block in which anything learns: earlier ones, and the embedding, run without the tape. Absent: all
  /// learn.
  std::optional<SiteId> begin{};
  BlockEvents* blocks = nullptr;  ///< Null: nothing follows the pass. It may follow one without a tape, too.
  bool recomputing = false;       ///< A block is being rerun: taps repeat their writes, but report no values.
  /// The tape records the local replacement model of the pass's dictionaries, which is linear in the values that it
  /// begins with: attention patterns, divisors of norms and values of the dictionaries' output sites are constants,
  /// except for what skip connections add to these. A gradient that reaches any other op that is not linear throws
  /// Unsupported. Source: Ameisen et al. 2025.
  bool linearizes = false;
};

}  // namespace vitrine
