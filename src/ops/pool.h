// The mean of the rows of each text.
//
//   y[s]     = Σ_t x[t] / n_s               t over the n_s rows of segment s, ascending, in float64
//   dx[t]   += dy[s] / n_s
#pragma once

#include <span>

#include "pass/pass.h"

namespace vitrine {

/// `[segments, d]` from x `[T, d]`. Rows of padding (Segment::n_padding) do not count.
Tensor mean_of_segments(Pass& p, const Tensor& x, std::span<const Segment> segments);

}  // namespace vitrine
