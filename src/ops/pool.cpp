#include "ops/pool.h"

#include <algorithm>
#include <vector>

#include "ops/op_kind.h"

namespace vitrine {

Tensor mean_of_segments(Pass& p, const Tensor& x, std::span<const Segment> segments) {
  const std::int64_t d = x.row_size();
  const auto n = static_cast<std::int64_t>(segments.size());
  const Tensor y = p.tensor({n, d});
  std::vector<Segment> rows(segments.begin(), segments.end());
  for (Segment& s : rows) s.length -= s.n_padding;
  p.for_rows(n, x.count() / std::max<std::int64_t>(1, n), [&](std::int64_t i) {
    const Segment& s = rows[static_cast<std::size_t>(i)];
    std::vector<double> sums(static_cast<std::size_t>(d), 0.0);
    for (std::int64_t t = s.first_row; t < s.first_row + s.length; ++t) {
      for (std::int64_t j = 0; j < d; ++j) sums[static_cast<std::size_t>(j)] += static_cast<double>(x.row(t)[j]);
    }
    for (std::int64_t j = 0; j < d; ++j) {
      y.row(i)[j] = static_cast<float>(sums[static_cast<std::size_t>(j)] / static_cast<double>(s.length));
    }
  });
  p.record(OpKind::mean_of_segments, {x}, y, [&p, d, rows, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    for (std::size_t i = 0; i < rows.size() && !p.shapes_only; ++i) {
      const Segment& s = rows[i];
      for (std::int64_t t = s.first_row; t < s.first_row + s.length; ++t) {
        p.kernels.add_scaled(dy.row(static_cast<std::int64_t>(i)), d, 1.0f / static_cast<float>(s.length), dx.row(t));
      }
    }
  });
  return y;
}

}  // namespace vitrine
