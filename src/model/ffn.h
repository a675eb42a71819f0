// The feed-forward sublayer.
//
//   gated   out = (act(x · w_gate) ⊙ (x · w_up)) · w_down       (Shazeer 2020)
//   plain   out = act(x · w_up) · w_down                         (Vaswani et al. 2017)
#pragma once

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// `[T, d]` from x `[T, d]`: the sublayer's output, before a post-norm.
Tensor ffn(Pass& p, BlockSite at, const DenseConfig& c, const FfnParams& w, const Tensor& x);

}  // namespace vitrine
