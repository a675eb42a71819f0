#include "ops/by_head.h"

#include <algorithm>

namespace vitrine {
namespace {

/// Columns [first, first + size) of the rows of x.
MatrixView columns(const Tensor& x, std::int64_t first, std::int64_t size) {
  return view_of(x.data + first, x.rows(), size, x.row_size());
}
const float* row(const MatrixView& floats, std::int64_t t) { return reinterpret_cast<const float*>(floats.at(t, 0)); }

/// The weight with elements that can be addressed one by one: a quantized one as floats, in the arena.
MatrixView addressable(Pass& p, const MatrixView& w) {
  if (!is_blocks(w.dtype)) return w;
  const Tensor floats = p.tensor({w.rows, w.cols});
  p.for_rows(w.rows, w.cols, [&](std::int64_t r) { p.widen(w.at(r, 0), w.dtype, w.cols, floats.row(r)); });
  return view_of(floats.data, w.rows, w.cols, w.cols);
}

/// dw[o] += Σ_t dy[t, o] · x[t], for each column o of dy; rows of dw are `stride` floats apart.
void add_outer_products(Pass& p, const MatrixView& dy, const MatrixView& x, float* dw, std::int64_t stride) {
  p.for_rows(dy.cols, x.rows * x.cols, [&](std::int64_t o) {
    for (std::int64_t t = 0; t < x.rows; ++t) {
      p.kernels.add_scaled(row(x, t), x.cols, row(dy, t)[o], dw + o * stride);
    }
  });
}

}  // namespace

Tensor heads_in(Pass& p, const LinearParams& params, const Tensor& x) {
  const Param& weight = params.weight;
  const std::int64_t n = x.shape[1], in = x.shape[2], m = weight.view.rows / n;
  const Tensor y = p.tensor({x.rows(), n * m});
  {
    const ArenaScope scope(p.arena);
    const MatrixView w = addressable(p, weight.view);
    for (std::int64_t h = 0; h < n; ++h) {
      multiply(p, columns(x, h * in, in), w.row_range(h * m, m), y.data + h * m, n * m);
    }
  }
  p.record("heads_in", {x}, y, [&p, &weight, n, in, m, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y), dw = p.grad(weight);
    const ArenaScope scope(p.arena);
    const MatrixView w = addressable(p, weight.view);
    for (std::int64_t h = 0; h < n; ++h) {
      const MatrixView dy_head = columns(dy, h * m, m);
      multiply(p, dy_head, transposed(w.row_range(h * m, m)), dx.data + h * in, n * in, Into::add);
      if (dw.data != nullptr) add_outer_products(p, dy_head, columns(x, h * in, in), dw.row(h * m), in);
    }
  });
  add_bias(p, params.bias, y);
  return y;
}

Tensor heads_out(Pass& p, const LinearParams& params, const Tensor& x) {
  const Param& weight = params.weight;
  const std::int64_t n = x.shape[1], m = x.shape[2], out = weight.view.rows;
  const Tensor y = p.tensor({x.rows(), n, out});
  {
    const ArenaScope scope(p.arena);
    const MatrixView w = addressable(p, weight.view);
    for (std::int64_t h = 0; h < n; ++h) {
      multiply(p, columns(x, h * m, m), w.col_range(h * m, m), y.data + h * out, n * out);
    }
  }
  p.record("heads_out", {x}, y, [&p, &weight, n, m, out, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y), dw = p.grad(weight);
    const ArenaScope scope(p.arena);
    const MatrixView w = addressable(p, weight.view);
    for (std::int64_t h = 0; h < n; ++h) {
      const MatrixView dy_head = columns(dy, h * out, out);
      multiply(p, dy_head, transposed(w.col_range(h * m, m)), dx.data + h * m, n * m, Into::add);
      if (dw.data != nullptr) add_outer_products(p, dy_head, columns(x, h * m, m), dw.data + h * m, n * m);
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
