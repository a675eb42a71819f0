// The short convolution of a mixer with a state: causal, and of each channel by itself.
//
//   y[t, c] = b[c] + Σ_j w[c, j] · x[t − k + 1 + j, c]         x, y [T, C], w [C, k], b [C] (optional)
//   dx[t, c] += Σ_j w[c, j] · dy[t + k − 1 − j, c]             dw[c, j] += Σ_t dy[t, c] · x[t − k + 1 + j, c]
//
// The sum begins with the bias, and goes from the oldest input to the newest, with one fused multiply-add each. Inputs
// before the text are 0; those before the pass are the window, which the cache keeps: the last k − 1 inputs
// `[k − 1, C]`, oldest first. Source: torch.nn.Conv1d with groups = C.
#pragma once

#include <span>

#include "cache/state_cache.h"
#include "pass/pass.h"

namespace vitrine {

struct ConvolutionParams {
  Param weight;  ///< `[C, k]`
  Param bias;    ///< `[C]`; absent if there is none.
};

/// The window of a convolution of `channels`, as the cache keeps it.
inline StateConfig window_config(std::int64_t channels, std::int64_t width) { return {"conv", {width - 1, channels}}; }

/// `[T, C]`. The channels belong to the parts in turn, each with a weight of its own rows. Reads and writes the window
/// as state `number` of the layer in the caches of the pass.
Tensor short_convolution(Pass& p, BlockSite at, std::span<const ConvolutionParams> parts, const Tensor& x, int number);

}  // namespace vitrine
