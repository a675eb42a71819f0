// What a pass that learns has besides: the tape, the loss, recompute, dropout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/tape.h"
#include "pass/dropout.h"

namespace vitrine {

/// The loss that is asked for: for every row the id that follows it, and the cost of a wrong prediction.
struct LossRequest {
  /// `[T]`; or, in a pass of one segment, `[T − 1]`, where no id is known to follow the last row.
  std::span<const std::int32_t> targets;
  std::span<const float> weights;  ///< The weight of each target; 0: it does not count. Empty: all 1.
  float scale = 1.0f;              ///< Gradients are those of scale · (the sum of all rows' losses).
  float label_smoothing = 0.0f;    ///< This fraction of the target is spread evenly over the vocabulary.
  float z_loss = 0.0f;             ///< z_loss · (log Z)² is added to each row's loss.

  /// For mixtures of experts: balance · E · Σ_e f_e · P_e, where f_e is the fraction of a sequence's choices that fell
  /// on expert e and P_e its mean weight, averaged over sequences and summed over layers (Fedus et al. 2021); and
  /// router_z · (log Σ exp router logits)², averaged over tokens and summed over layers (Zoph et al. 2022).
  float balance = 0.0f;
  bool balance_over_layers = false;  ///< f and P over all layers and tokens of the pass, f summed over ranks: as
                                     ///< transformers' load_balancing_loss_func has it.
  float router_z = 0.0f;
  float router_scale = 1.0f;  ///< As `scale`: of the sum over the pass's segments, and over its rows' means in them.
};

/// The losses that a forward found. A pass adds to them.
struct LossResult {
  double cross_entropy = 0;  ///< Σ weight · cross-entropy, nats.
  double z_squares = 0;      ///< Σ weight · (log Z)².
  double balance_sum = 0;    ///< Σ over segments and layers of E · Σ f · P.
  double router_z_sum = 0;   ///< Σ over segments and layers of the mean square.

  /// For balance_over_layers: choices and weights by expert, and the number of rows over all layers.
  std::vector<double> choices{}, choice_weights{};
  std::int64_t routed_rows = 0;

  /// E · Σ f · P over all layers.
  double balance_of_layers() const;
};

struct Learning {
  Tape* tape = nullptr;               ///< Records the ops; their values stay in the arena until it is unwound.
  const LossRequest* loss = nullptr;  ///< With a tape, gradients start from this loss.
  LossResult* result = nullptr;       ///< Not null where `loss` is not.
  bool recompute = false;             ///< The tape keeps only the stream between blocks; backward runs blocks again.
  Dropout dropout{};                  ///< Of the embedding, of what sublayers add to the stream, and of the pattern.
  bool recomputing = false;           ///< A block runs again: taps have received its values, and write as before.
};

}  // namespace vitrine
