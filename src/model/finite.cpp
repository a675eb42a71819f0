#include "model/finite.h"

#include <algorithm>

namespace vitrine {

Segment& segment_of(Pass& p, std::int64_t row) {
  return *std::find_if(p.segments.begin(), p.segments.end(),
                       [row](const Segment& s) { return row < s.first_row + s.length; });
}

void check_finite(Pass& p, const SiteId& at, const Tensor& x, const std::function<std::int64_t(std::int64_t)>& row_of) {
  if (p.shapes_only || p.kernels.all_finite(x.data, x.count())) return;
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    if (p.kernels.all_finite(x.row(t), x.row_size())) continue;
    const Failure here{at, row_of(t)};
    Segment& segment = segment_of(p, here.row);
    if (!segment.failure) segment.failure = here;
    const bool all_failed = std::all_of(p.segments.begin(), p.segments.end(), [](auto& s) { return s.failure; });
    if (all_failed || p.taps != nullptr || p.is_taped() || p.training.loss != nullptr) throw error_of(here);
    std::fill_n(x.row(t), x.row_size(), 0.0f);
  }
}

void check_finite(Pass& p, const SiteId& at, const Tensor& x) {
  check_finite(p, at, x, [](std::int64_t t) { return t; });
}

}  // namespace vitrine
