#include "ops/control.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

bool changes(const Segment& segment, int layer) {
  return std::ranges::any_of(segment.modifiers.controls,
                             [&](const AppliedControl& control) { return control.direction_of(layer) != nullptr; });
}

}  // namespace

std::vector<float> sum_of_controls(AppliedControls controls, int layer) {
  std::vector<float> sum;
  for (const AppliedControl& control : controls) {
    const std::vector<float>* const direction = control.direction_of(layer);
    if (direction == nullptr) continue;
    const auto factor = static_cast<float>(control.scale);
    const bool is_first = sum.empty();
    sum.resize(direction->size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const float term = factor * (*direction)[i];
      sum[i] = is_first ? term : sum[i] + term;
    }
  }
  return sum;
}

Tensor add_controls(Pass& p, BlockSite at, const Tensor& x) {
  const std::vector<Segment>& segments = p.segments_of(at.stack);
  if (std::ranges::none_of(segments, [&](const Segment& s) { return changes(s, at.layer); })) return x;
  const std::int64_t n = x.row_size();
  const Tensor y = p.tensor(x.shape);
  p.copy(x.data, x.count(), y.data);
  for (const Segment& s : segments) {
    if (p.shapes_only || !changes(s, at.layer)) continue;
    const std::vector<float> sum = sum_of_controls(s.modifiers.controls, at.layer);
    p.for_rows(s.length, n, [&](std::int64_t row) {
      float* const own = y.row(s.first_row + row);
      p.kernels.add(own, sum.data(), n, own);
    });
  }
  p.record(OpKind::add_controls, {x}, y, [&p, x, y] { accumulate(p, p.grad(y), p.grad(x)); });
  return y;
}

}  // namespace vitrine
