// A mixture of experts: a feed-forward sublayer of many experts, of which each token uses a few.
//
//   x [T, d] ──┬── router ── softmax ── top-k ──▶ chosen [T, k], shares [T, k]
//              │        ┌── expert 3 ◀── its rows of x, gathered  [n, d]
//              ├────────┼── expert 7 ◀── …
//              │        └── …                        out[t] = Σ_r shares[t, r] · expert_{chosen[t, r]}(x[t])
//              └── shared expert · sigmoid(x · shared_gate)        added, if there is one
//
// Only the chosen experts are computed. The outputs of a token's experts are added by rank, largest weight first, so
// that its result does not depend on the other tokens of the pass.
#pragma once

#include "model/config.h"
#include "model/params.h"

namespace vitrine {

/// `[T, d]` from x `[T, d]`: the sublayer's output, before the post-norm.
Tensor moe(Pass& p, BlockSite at, const MoeConfig& c, const MoeParams& w, const Tensor& x);

}  // namespace vitrine
