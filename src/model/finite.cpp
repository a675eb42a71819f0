#include "model/finite.h"

#include <algorithm>

namespace vitrine {
namespace {

/// Whether no segment of the pass can be computed any more.
bool all_failed(Pass& p, Stack stack) {
  const auto failed = [](const Segment& s) { return s.failure.has_value(); };
  const std::vector<Segment>& segments = p.segments_of(stack);
  if (!std::all_of(segments.begin(), segments.end(), failed)) return false;
  const auto reads_source = [](const Segment& s) { return s.source >= 0; };
  return stack != Stack::encoder || std::all_of(p.segments.begin(), p.segments.end(), reads_source);
}

}  // namespace

Segment& segment_of(std::vector<Segment>& segments, std::int64_t row) {
  return *std::find_if(segments.begin(), segments.end(),
                       [row](const Segment& s) { return row < s.first_row + s.length; });
}

void check_finite(Pass& p, const SiteId& at, const Tensor& x, const std::function<std::int64_t(std::int64_t)>& row_of) {
  if (p.shapes_only || p.kernels.all_finite(x.data, x.count())) return;
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    if (p.kernels.all_finite(x.row(t), x.row_size())) continue;
    const Failure here{at, row_of(t)};
    Segment& segment = segment_of(p.segments_of(at.stack), here.row);
    if (!segment.failure) segment.failure = here;
    const bool ends = (p.taps != nullptr && p.taps->ends_at_failure()) || p.is_taped() || p.training.loss != nullptr ||
                      p.split != nullptr;  // which does not pass failures on
    if (ends || all_failed(p, at.stack)) throw error_of(here);
    std::fill_n(x.row(t), x.row_size(), 0.0f);
  }
}

void check_finite(Pass& p, const SiteId& at, const Tensor& x) {
  check_finite(p, at, x, [](std::int64_t t) { return t; });
}

}  // namespace vitrine
