#include "ops/by_head.h"

#include <algorithm>

namespace vitrine {
namespace {

/// Vectors [first, first + size) of every row of x, a row apart.
StridedRows part(const Tensor& x, std::int64_t first, std::int64_t size) {
  return {x.data + first, x.row_size(), x.rows(), size};
}

MatrixView transposed(const MatrixView& m) { return {m.data, m.dtype, m.cols, m.rows, m.col_stride, m.row_stride}; }

/// y += x · wᵀ
void add_product(Pass& p, const MatrixView& w, const StridedRows& x, const StridedRows& y) {
  const ArenaScope scope(p.arena);
  const Tensor made = p.tensor({y.n, y.size});
  product(p, w, 0, x, {made.data, y.size, y.n, y.size});
  for (std::int64_t t = 0; t < y.n; ++t) {
    float* const to = y.data + t * y.stride;
    p.kernels.add(to, made.row(t), y.size, to);
  }
}

/// dw[o] += Σ_t dy[t, o] · x[t], for each column o of dy.
void add_outer_products(Pass& p, const StridedRows& dy, const StridedRows& x, const StridedRows& dw) {
  p.for_rows(dy.size, x.n * x.size, [&](std::int64_t o) {
    for (std::int64_t t = 0; t < x.n; ++t) {
      p.kernels.add_scaled(x.data + t * x.stride, x.size, dy.data[t * dy.stride + o], dw.data + o * dw.stride);
    }
  });
}

}  // namespace

Tensor heads_in(Pass& p, const Param& weight, const Tensor& x) {
  const MatrixView& w = weight.view;
  const std::int64_t n = x.shape[1], in = x.shape[2], m = w.rows / n;
  const Tensor y = p.tensor({x.rows(), n * m});
  for (std::int64_t h = 0; h < n; ++h) product(p, w.row_range(h * m, m), 0, part(x, h * in, in), part(y, h * m, m));
  if (!p.is_taped()) return y;
  check_has_backward(weight);
  p.record("heads_in", {x}, y, [&p, &weight, n, in, m, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y), dw = p.grad(weight);
    for (std::int64_t h = 0; h < n; ++h) {
      const StridedRows dy_head = part(dy, h * m, m);
      add_product(p, transposed(weight.view.row_range(h * m, m)), dy_head, part(dx, h * in, in));
      if (dw.data != nullptr) add_outer_products(p, dy_head, part(x, h * in, in), {dw.row(h * m), in, m, in});
    }
  });
  return y;
}

Tensor heads_out(Pass& p, const Param& weight, const Tensor& x) {
  const MatrixView& w = weight.view;
  const std::int64_t n = x.shape[1], m = x.shape[2], out = w.rows;
  const Tensor y = p.tensor({x.rows(), n, out});
  for (std::int64_t h = 0; h < n; ++h) product(p, w, h * m, part(x, h * m, m), part(y, h * out, out));
  if (!p.is_taped()) return y;
  check_has_backward(weight);
  p.record("heads_out", {x}, y, [&p, &weight, n, m, out, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y), dw = p.grad(weight);
    for (std::int64_t h = 0; h < n; ++h) {
      const StridedRows dy_head = part(dy, h * out, out);
      add_product(p, transposed(weight.view.col_range(h * m, m)), dy_head, part(dx, h * m, m));
      if (dw.data != nullptr) add_outer_products(p, dy_head, part(x, h * m, m), {dw.data + h * m, n * m, out, m});
    }
  });
  return y;
}

Tensor repeat(Pass& p, const Tensor& x, std::int64_t n) {
  const std::int64_t d = x.row_size();
  const Tensor copies = p.tensor({x.rows(), n, d});
  for (std::int64_t i = 0; i < x.rows() * n; ++i) std::copy_n(x.row(i / n), d, copies.data + i * d);
  p.record("repeat", {x}, copies, [&p, n, d, x, copies] {  // dx[t] = Σ_h dcopies[t, h]
    const Tensor dx = p.grad(x), dcopies = p.grad(copies);
    p.for_rows(x.rows(), n * d, [&](std::int64_t t) {
      for (std::int64_t h = 0; h < n; ++h) p.kernels.add(dx.row(t), dcopies.row(t) + h * d, d, dx.row(t));
    });
  });
  return copies;
}

Tensor first_of_groups(Pass& p, const Tensor& x, std::int64_t n) {
  const std::int64_t group = x.shape[1] / n, d = x.shape[2];
  const Tensor some = p.tensor({x.rows(), n, d});
  for (std::int64_t i = 0; i < x.rows() * n; ++i) std::copy_n(x.data + i * group * d, d, some.data + i * d);
  p.record("first_of_groups", {x}, some, [&p, n, group, d, x, some] {
    const Tensor dx = p.grad(x), dsome = p.grad(some);
    for (std::int64_t i = 0; i < x.rows() * n; ++i) {
      float* const to = dx.data + i * group * d;
      p.kernels.add(to, dsome.data + i * d, d, to);
    }
  });
  return some;
}

}  // namespace vitrine
