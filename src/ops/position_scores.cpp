#include "ops/position_scores.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/math.h"
#include "ops/embed.h"
#include "ops/op_kind.h"

namespace vitrine {

std::int64_t row_of(const DistanceTableConfig& c, std::int64_t distance) {
  const std::int64_t middle = c.span / 2, away = std::abs(distance);
  std::int64_t bucket = distance;
  if (c.max_distance && away > middle) {
    const auto log = [](float x) { return static_cast<float>(math::log(static_cast<double>(x))); };
    const float ratio = static_cast<float>(away) / static_cast<float>(middle);
    const auto whole = static_cast<float>(static_cast<double>(*c.max_distance - 1) / static_cast<double>(middle));
    const float step = std::ceil(log(ratio) / log(whole) * static_cast<float>(middle - 1));
    const float place = step + static_cast<float>(middle), most = static_cast<float>(2 * c.span);  // it may be infinite
    const std::int64_t wide = place < most ? static_cast<std::int64_t>(std::max(place, -most)) : 2 * c.span;
    bucket = distance < 0 ? -wide : wide;
  }
  return std::clamp<std::int64_t>(bucket + c.span, 0, 2 * c.span - 1);
}

PositionRows position_rows(Pass& p, const DistanceTableConfig& c, const Param& table, const NormParams& norm,
                           Stack stack) {
  std::int64_t n = 1;
  for (const Segment& s : p.segments_of(stack)) n = std::max(n, s.position + s.length);
  auto of_distance = std::make_shared<std::vector<std::int32_t>>();
  for (std::int64_t distance = -(n - 1); distance < n; ++distance) {
    of_distance->push_back(static_cast<std::int32_t>(row_of(c, distance)));
  }
  // The rows need not ascend with the distance: a max_distance below the middle makes the logarithms fall.
  const auto [lowest, highest] = std::minmax_element(of_distance->begin(), of_distance->end());
  const std::int64_t first = *lowest, end = *highest + 1;
  for (std::int32_t& row : *of_distance) row -= static_cast<std::int32_t>(first);
  std::vector<std::int32_t> numbers;
  for (std::int64_t row = first; row < end; ++row) numbers.push_back(static_cast<std::int32_t>(row));
  Tensor rows = embed(p, table, numbers, {.name = "rel_embed"});
  if (c.norm) rows = plain_norm(p, *c.norm, norm, rows);
  return {rows, std::move(of_distance)};
}

Tensor position_products(Pass& p, const Tensor& x, const Tensor& y, float scale) {
  const std::int64_t n_heads = x.shape[1], n = x.shape[2], m = y.rows();
  const Tensor out = p.tensor({x.rows(), n_heads, m});
  p.for_rows(x.rows(), 2 * n_heads * n * m, [&](std::int64_t t) {
    for (std::int64_t h = 0; h < n_heads; ++h) {
      float* const to = out.row(t) + h * m;
      for (std::int64_t r = 0; r < m; ++r) to[r] = scale * p.kernels.dot(x.row(t) + h * n, y.row(r) + h * n, n);
    }
  });
  p.record(OpKind::position_products, {x, y}, out, [&p, x, y, out, scale, n_heads, n, m] {
    const Tensor dx = p.grad(x), dy = p.grad(y), dout = p.grad(out);
    p.for_rows(x.rows(), 2 * n_heads * n * m, [&](std::int64_t t) {
      for (std::int64_t h = 0; h < n_heads; ++h) {
        const float* const d = dout.row(t) + h * m;
        for (std::int64_t r = 0; r < m; ++r) p.kernels.add_scaled(y.row(r) + h * n, n, scale * d[r], dx.row(t) + h * n);
      }
    });
    p.for_rows(m, 2 * n_heads * n * x.rows(), [&](std::int64_t r) {
      for (std::int64_t t = 0; t < x.rows(); ++t) {
        for (std::int64_t h = 0; h < n_heads; ++h) {
          p.kernels.add_scaled(x.row(t) + h * n, n, scale * dout.row(t)[h * m + r], dy.row(r) + h * n);
        }
      }
    });
  });
  return out;
}

}  // namespace vitrine
