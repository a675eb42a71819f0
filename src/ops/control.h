// What control vectors add to the residual stream (pass/modifiers.h).
//
//   y[t] = x[t] + v    v = Σ float(scale) · direction, of the controls of the row's segment, in their order
//   dx[t] += dy[t]
//
// v is summed in float32 from the first product on, and added once, so y has the bits of an edit of the site with v.
#pragma once

#include <vector>

#include "pass/pass.h"

namespace vitrine {

/// v of a layer `[d]`; empty if no control changes the stream after it.
std::vector<float> sum_of_controls(AppliedControls controls, int layer);

/// The stream x `[T, d]` after a layer, with what the controls of its rows' segments add. x itself if they add nothing.
Tensor add_controls(Pass& p, BlockSite at, const Tensor& x);

}  // namespace vitrine
