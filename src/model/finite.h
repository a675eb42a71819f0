// Detection of infinite and NaN values.
#pragma once

#include <functional>
#include <vector>

#include "pass/pass.h"

namespace vitrine {

/// Marks a segment as failed if one of its rows in x has an infinite or NaN value, and zeroes the row. `row_of(t)` is
/// the row of the stack that row t of x belongs to. Throws NotFinite if all segments have failed. In a pass with a
/// tape, a loss, or taps that end at a failure, one failed segment suffices.
void check_finite(Pass& p, const SiteId& at, const Tensor& x, const std::function<std::int64_t(std::int64_t)>& row_of);
/// The same for x with a row for each row of the stack.
void check_finite(Pass& p, const SiteId& at, const Tensor& x);

/// The segment that a row belongs to.
Segment& segment_of(std::vector<Segment>& segments, std::int64_t row);

}  // namespace vitrine
