// The feed-forward sublayer.
//
//   gated   out = (act(x · w_gate) ⊙ (x · w_up)) · w_down       (Shazeer 2020)
//   plain   out = act(x · w_up) · w_down                         (Vaswani et al. 2017)
#pragma once

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// The sites of a sublayer: before the activation (gated: the gate), the up projection of a gated one, after the
/// activation, and the output; and what adapters add to the three projections.
struct FfnSites {
  SiteId pre, up, post, out;
  SiteId lora_gate, lora_up, lora_down;
};

/// `[T, d]` from x `[T, d]`: the sublayer's output, before the post-norm.
Tensor ffn(Pass& p, const FfnSites& at, const DenseConfig& c, const FfnParams& w, const Tensor& x);

}  // namespace vitrine
