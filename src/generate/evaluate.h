// How well a model predicts a text: cross-entropy over windows.
//
//   text      t0 t1 t2 t3 t4 t5 t6 t7 …             window 4, with BOS: [B t0 t1 t2] [B t3 t4 t5] [B t6 t7 …
//                                                   window 4, without:  [t0 t1 t2 t3] [t4 t5 t6 t7] …
//   stride 2, with BOS: [B t0 t1 t2] [B t2 t3 t4] [B t4 t5 t6] …    a token counts in the first window that has it
//
// Each window, including BOS, is processed in one pass. A token counts if its window has a token before it, so without
// BOS the first token of a window does not count.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/progress.h"
#include "generate/context.h"

namespace vitrine {

struct EvalConfig {
  std::int64_t window = 0;          ///< Tokens, at least 2; 0: the model's context.
  std::int64_t stride = 0;          ///< Tokens of text from one window to the next; 0 or too large: no overlap.
  std::optional<std::int32_t> bos;  ///< Each window begins with it.
};

struct Evaluation {
  double nats = 0;          ///< The sum of −log p over the tokens that count.
  std::int64_t tokens = 0;  ///< The number of tokens that count.
  std::int64_t bytes = 0;   ///< Length of these tokens as text; 0 without a tokenizer.
  std::int64_t windows = 0;
  std::int64_t window = 0, stride = 0;  ///< The values used.

  double loss() const { return nats / static_cast<double>(tokens); }
};

/// Scores the tokens of a text of any length. Each window is a sequence of its own, with positions from 0. Throws
/// BadInput for a window that is longer than the context, and if no token counts.
Evaluation evaluate(const GenerateContext& context, std::span<const std::int32_t> text, const EvalConfig& config,
                    const ReportProgress& report = {});

/// Scores a window: Σ −log p of ids [first_row + 1, end), each by the rows before it. Calls done(row) after some rows.
using ScoreWindow = std::function<double(std::span<const std::int32_t> ids, std::int64_t first_row,
                                         const std::function<void(std::int64_t row)>& done)>;

/// The same with another way to score a window.
Evaluation evaluate_windows(const GenerateContext& context, std::span<const std::int32_t> text,
                            const EvalConfig& config, const ScoreWindow& score_window,
                            const ReportProgress& report = {});

/// How well an encoder–decoder predicts given targets.
/// What the encoder reads, and what the decoder is to write, its end included.
struct TextPair {
  std::vector<std::int32_t> source, target;
};

struct PairEvaluation {
  double nats = 0;  ///< Σ −log p of all target tokens.
  std::int64_t tokens = 0;
  std::int64_t pairs = 0;

  double loss() const { return nats / static_cast<double>(tokens); }
};

/// The decoder reads `start` and all tokens of a target but its last. Throws BadInput for a text that is empty or
/// exceeds the context, NotFinite, Interrupted.
PairEvaluation evaluate_pairs(const GenerateContext& context, std::span<const TextPair> pairs, std::int32_t start,
                              const ReportProgress& report = {});

// How far the predictions of one model are from those of another.

/// KL(p ‖ q) of two rows of logits, in nats; each comes with its log Σ exp(logits) (log_sum_exp).
double kl_divergence(std::span<const float> p, double normalizer_p, std::span<const float> q, double normalizer_q);

struct Divergence {
  double kl = 0;        ///< The mean of KL(p ‖ q) over positions, in nats.
  double same_top = 0;  ///< The fraction of positions at which both have the same most likely token.
  std::int64_t positions = 0;
};

/// Compares the predictions p of one model with q of another at every position. Throws as score() does.
Divergence divergence(const GenerateContext& p, const GenerateContext& q, const Tokens& tokens);

}  // namespace vitrine
