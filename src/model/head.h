// The head: from the stream after the last block to vectors, logits and losses.
#pragma once

#include <span>

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// Passes the normed rows of the stream x and the pooler's vectors to their receivers. Norms and unembeds the requested
/// rows, in groups, and passes the logits to the receiver. In training
/// the backward of each group, down to the normed rows, runs before the next group, so that only the logits of one
/// group are in memory. `ids` are the tokens of the rows of x, of which each predicts the next.
void run_head(Pass& p, const ModelConfig& c, const ModelParams& w, const Tensor& x, std::span<const std::int32_t> ids);

/// The logits `[n, vocab_size]` of rows `[n, d_model]` of a stream, as run_head computes them. They belong to rows
/// `numbers` of the pass.
Tensor head_logits(Pass& p, const ModelConfig& c, const ModelParams& w, const Tensor& rows,
                   std::span<const std::int64_t> numbers);

}  // namespace vitrine
