#include "ops/embed.h"

#include "base/error.h"

namespace vitrine {

Tensor embed(Pass& p, const Param& table, float scale, std::span<const std::int32_t> ids) {
  const std::int64_t d = table.view.cols;
  const auto n_rows = static_cast<std::int64_t>(ids.size());
  for (std::int32_t id : ids) {
    if (id < 0 || id >= table.view.rows) {
      throw BadInput("embed", "expected ids from 0 to {}, got {}", table.view.rows - 1, id);
    }
  }
  const Tensor x = p.tensor({n_rows, d});
  p.for_rows(n_rows, d, [&](std::int64_t t) {
    p.widen(table.view.at(ids[static_cast<std::size_t>(t)], 0), table.view.dtype, d, x.row(t));
    if (scale != 1.0f) p.kernels.scale(x.row(t), d, scale, x.row(t));
  });
  return x;
}

Tensor embed_positions(Pass& p, const Param& table, std::int64_t n_rows) {
  const std::int64_t d = table.view.cols;
  const Tensor x = p.tensor({n_rows, d});
  for (const Segment& s : p.segments) {
    if (s.position + s.length > table.view.rows) {
      throw BadInput("embed", "expected positions from 0 to {}, got {}", table.view.rows - 1,
                     s.position + s.length - 1);
    }
    p.for_rows(s.length, d, [&](std::int64_t i) {
      p.widen(table.view.at(s.position + i, 0), table.view.dtype, d, x.row(s.first_row + i));
    });
  }
  return x;
}

}  // namespace vitrine
