#include "ops/by_head.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

/// Columns [first, first + size) of the rows of x.
MatrixView columns(const Tensor& x, std::int64_t first, std::int64_t size) {
  return view_of(x.data + first, x.rows(), size, x.row_size());
}
const float* row(const MatrixView& floats, std::int64_t t) { return reinterpret_cast<const float*>(floats.at(t, 0)); }

/// The weight with individually addressable elements: a quantized weight is dequantized into the arena.
MatrixView addressable(Pass& p, const MatrixView& w) {
  if (!is_quantized(w.dtype)) return w;
  const Tensor floats = p.tensor({w.rows, w.cols});
  p.for_rows(w.rows, w.cols, [&](std::int64_t r) { p.widen(w, r, w.cols, floats.row(r)); });
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

/// The weight as `multiply_heads` reads it: rows of a quantized weight have an address, parts of its columns need not.
MatrixView readable(Pass& p, const MatrixView& w, bool by_rows) { return by_rows ? w : addressable(p, w); }

/// y[t, h] = the product of x[t, h] `[n_in]` with the part `[n_out, n_in]` of the weight that belongs to head h:
/// consecutive rows, or consecutive columns.
Tensor multiply_heads(Pass& p, OpKind kind, const Param& weight, bool by_rows, std::int64_t n_out, const Tensor& x,
                      const Shape& shape) {
  const std::int64_t n = x.shape[1], n_in = x.shape[2];
  const auto part = [=](const MatrixView& w, std::int64_t h) {
    return by_rows ? w.row_range(h * n_out, n_out) : w.col_range(h * n_in, n_in);
  };
  const Tensor y = p.tensor(shape);
  {
    const ArenaScope scope(p.arena);
    const MatrixView w = readable(p, weight.view, by_rows);
    const Tensor from = by_rows ? x : as_multiplied(p, x, weight.view);
    for (std::int64_t h = 0; h < n; ++h) {
      multiply(p, columns(from, h * n_in, n_in), part(w, h), y.data + h * n_out, n * n_out);
    }
  }
  p.record(kind, {x}, y, [=, &p, &weight] {
    const Tensor dx = p.grad(x), dy = p.grad(y), dw = p.grad(weight);
    const ArenaScope scope(p.arena);
    const MatrixView w = readable(p, weight.view, by_rows);
    for (std::int64_t h = 0; h < n; ++h) {
      const MatrixView dy_head = columns(dy, h * n_out, n_out);
      multiply(p, dy_head, transposed(part(w, h)), dx.data + h * n_in, n * n_in, Into::add);
      if (dw.data == nullptr) continue;
      float* const dw_head = by_rows ? dw.row(h * n_out) : dw.data + h * n_in;
      add_outer_products(p, dy_head, columns(x, h * n_in, n_in), dw_head, dw.row_size());
    }
  });
  return y;
}

}  // namespace

Tensor heads_in(Pass& p, const LinearParams& w, const Tensor& x, const std::optional<AddedSite>& added) {
  const std::int64_t n = x.shape[1], n_rows = w.weight.view.rows;
  const auto multiply_rows = [&](const Param& weight, const Tensor& from) {
    return multiply_heads(p, OpKind::heads_in, weight, true, n_rows / n, from, {from.rows(), n_rows});
  };
  const auto low_rank = [&](const LowRank& low, float factor, const Tensor& rows) {
    const Tensor each = rows.reshaped({rows.rows() * n, rows.shape[2]});
    const Tensor u = scale(p, factor, product(p, *low.a, each));
    return multiply_rows(low.b, u.reshaped({rows.rows(), n, low.rank()}));
  };
  const Tensor y = adapted(p, w.weight.name, x, multiply_rows(w.weight, x), added, low_rank);
  add_bias(p, w.bias, y);
  return y;
}

Tensor heads_out(Pass& p, const LinearParams& w, const Tensor& x) {
  const std::int64_t n = x.shape[1];
  const auto multiply_columns = [&](const Param& weight, const Tensor& from) {
    return multiply_heads(p, OpKind::heads_out, weight, false, weight.view.rows, from,
                          {from.rows(), n, weight.view.rows});
  };
  const auto low_rank = [&](const LowRank& low, float factor, const Tensor& rows) {
    const Tensor u = scale(p, factor, multiply_columns(*low.a, rows));
    return product(p, low.b, u.reshaped({rows.rows() * n, low.rank()}));
  };
  return adapted(p, w.weight.name, x, multiply_columns(w.weight, x), {}, low_rank);
}

Tensor repeat(Pass& p, const Tensor& x, std::int64_t n) {
  const std::int64_t d = x.row_size();
  const Tensor copies = p.tensor({x.rows(), n, d});
  p.for_rows(x.rows() * n, d, [&](std::int64_t i) { std::copy_n(x.row(i / n), d, copies.data + i * d); });
  p.record(OpKind::repeat, {x}, copies, [&p, n, d, x, copies] {  // dx[t] = Σ_h dcopies[t, h]
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
  p.for_rows(x.rows() * n, d, [&](std::int64_t i) { std::copy_n(x.data + i * group * d, d, some.data + i * d); });
  p.record(OpKind::first_of_groups, {x}, some, [&p, n, group, d, x, some] {
    const Tensor dx = p.grad(x), dsome = p.grad(some);
    p.for_rows(x.rows() * n, d, [&](std::int64_t i) {
      float* const to = dx.data + i * group * d;
      p.kernels.add(to, dsome.data + i * d, d, to);
    });
  });
  return some;
}

}  // namespace vitrine
