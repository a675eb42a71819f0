#include "ops/dropout.h"

#include "ops/op_kind.h"

namespace vitrine {
namespace {

/// Calls body(row, factors) for all rows, in parallel.
template <class Body>
void for_rows_with_factors(Pass& p, const DropoutMask& mask, const Tensor& x, Body&& body) {
  const ArenaScope scope(p.arena);
  const std::int64_t n = x.row_size();
  const Tensor factors = p.tensor(x.shape);
  p.for_rows(x.rows(), 16 * n, [&](std::int64_t t) {
    p.kernels.dropout_factors(mask, t * n, n, factors.row(t));
    body(t, factors.row(t));
  });
}

}  // namespace

Tensor dropout(Pass& p, const SiteId& at, const Tensor& x, float rate) {
  if (rate == 0) return x;
  Dropout of_site = p.training.dropout;
  of_site.rate = rate;
  const DropoutMask mask = of_site.mask(at);
  const std::int64_t n = x.row_size();
  const Tensor y = p.tensor(x.shape);
  for_rows_with_factors(p, mask, x,
                        [&](std::int64_t t, const float* f) { p.kernels.multiply(x.row(t), f, n, y.row(t)); });
  p.record(OpKind::dropout, {x}, y, [&p, mask, n, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    for_rows_with_factors(p, mask, x,
                          [&](std::int64_t t, const float* f) { p.kernels.multiply_add(dy.row(t), f, n, dx.row(t)); });
  });
  return y;
}

}  // namespace vitrine
