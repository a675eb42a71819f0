// How the stream after the last block changes with the stream after an earlier one: the Jacobians of a Jacobian lens.
//
//   J_l[o, i] = mean_t Σ_{t' ≥ t} ∂ h_last[t', o] / ∂ h_l[t, i]      t and t' from `first` to n − 2, n the tokens
//
// A pass has copies of the text, of which each gives one row o of all J_l: its gradient begins at element o of the last
// stream, at all t' at once. The tape is replayed for the next rows. Sources: Gurnee et al. 2026; TransformerLens 4.3,
// tools/analysis/jacobian_lens.py.
#pragma once

#include <cstdint>
#include <span>

#include "generate/context.h"

namespace vitrine {

struct JacobianOptions {
  std::int64_t first = 16;  ///< The first position that counts; the text has at least 2 tokens more.
  std::int64_t copies = 8;  ///< Of the text in a pass. They change no bit.
};

/// Throws Unsupported for models without one causal stream: encoder–decoders, models that read later tokens, and models
/// of several streams.
void check_jacobian(const ModelConfig& config);

/// Adds J_l to to[l] `[d, d]`, for all layers but the last. Computes in float32. Throws as a forward does.
void add_jacobians(const GenerateContext& context, std::span<const std::int32_t> ids, const JacobianOptions& options,
                   std::span<const Tensor> to);

}  // namespace vitrine
