// How well an encoder–decoder predicts given targets.
#pragma once

#include <span>
#include <vector>

#include "base/progress.h"
#include "generate/context.h"

namespace vitrine {

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

}  // namespace vitrine
