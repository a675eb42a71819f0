#include "ops/query_scale.h"

#include "base/math.h"
#include "ops/attention_sites.h"
#include "ops/describe.h"
#include "ops/elementwise.h"

namespace vitrine {

Tensor query_scales(Pass& p, const QueryScaleConfig& c, std::int64_t n_rows, Stack stack) {
  const Tensor y = p.tensor({n_rows});
  for (const Segment& s : p.segments_of(stack)) {
    p.for_rows(s.length, 16, [&](std::int64_t i) {
      const auto intervals = static_cast<double>((s.position + i + c.first) / c.interval);
      y.data[s.first_row + i] = static_cast<float>(1 + static_cast<double>(c.beta) * math::log(1 + intervals));
    });
  }
  p.record(OpKind::query_scales, std::initializer_list<Tensor>{}, y, [] {});
  return y;
}

Tensor scale_queries(Pass& p, BlockSite at, const QueryScaleConfig& c, const Tensor& q) {
  return multiply_rows(p, q, p.tap(at(AttentionSite::query_scale), query_scales(p, c, q.rows(), at.stack)));
}

constexpr OpDescription query_scales_op{"src/ops/query_scale.cpp", {"$y_{t} = 1 + β · ln(1 + n_{t})"}};

}  // namespace vitrine
