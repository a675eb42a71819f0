// Values that are not finite: which sequence they belong to, and what becomes of it.
#pragma once

#include <functional>

#include "pass/pass.h"

namespace vitrine {

/// Marks as failed every segment of which x holds an infinite or NaN value (it would become a token otherwise), and
/// overwrites such rows with zeros. `row_of(t)` is the row of the pass that row t of x belongs to. Throws NotFinite
/// once all segments have failed, and at once where taps see the values or a loss sums over the segments.
void check_finite(Pass& p, const SiteId& at, const Tensor& x, const std::function<std::int64_t(std::int64_t)>& row_of);
/// x has a row for each row of the pass.
void check_finite(Pass& p, const SiteId& at, const Tensor& x);

/// The segment that a row of the pass belongs to.
Segment& segment_of(Pass& p, std::int64_t row);

}  // namespace vitrine
