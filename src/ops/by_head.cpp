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

/// The part of a weight that belongs to a head: rows or columns that the head's vectors are multiplied by, or whose
/// transpose they are multiplied by.
struct HeadPart {
  HeadRows range;  // of columns, if not by_rows
  bool by_rows = true;

  /// The weight as `of` reads it: rows of a quantized weight have an address, parts of its columns need not.
  MatrixView readable(Pass& p, const MatrixView& w) const { return by_rows ? w : addressable(p, w); }
  MatrixView of(const MatrixView& w, std::int64_t h) const {
    const std::int64_t first = h * range.step + range.first;
    const MatrixView part = by_rows ? w.row_range(first, range.count) : w.col_range(first, range.count);
    return range.is_transposed ? transposed(part) : part;
  }
  float* of(const Tensor& dw, std::int64_t h) const {
    const std::int64_t first = h * range.step + range.first;
    return by_rows ? dw.row(first) : dw.data + first;
  }
};

/// y[t, h] = the product of the first elements of x[t, h] with the part of the weight that belongs to head h.
Tensor multiply_heads(Pass& p, OpKind kind, const Param& weight, const HeadPart& part, const Tensor& x,
                      const Shape& shape) {
  const std::int64_t n = x.shape[1], n_of_head = x.shape[2];
  const MatrixView first = part.of(weight.view, 0);
  const std::int64_t n_in = first.cols, n_out = first.rows;
  const Tensor y = p.tensor(shape);
  {
    const ArenaScope scope(p.arena);
    const MatrixView w = part.readable(p, weight.view);
    const Tensor from = part.by_rows ? x : as_multiplied(p, x, weight.view);
    for (std::int64_t h = 0; h < n; ++h) {
      multiply(p, columns(from, h * n_of_head, n_in), part.of(w, h), y.data + h * n_out, n * n_out);
    }
  }
  p.record(kind, {x}, y, [=, &p, &weight] {
    const Tensor dx = p.grad(x), dy = p.grad(y), dw = p.grad(weight);
    const ArenaScope scope(p.arena);
    const MatrixView w = part.readable(p, weight.view);
    for (std::int64_t h = 0; h < n; ++h) {
      const MatrixView dy_head = columns(dy, h * n_out, n_out), x_head = columns(x, h * n_of_head, n_in);
      multiply(p, dy_head, transposed(part.of(w, h)), dx.data + h * n_of_head, n * n_of_head, Into::add);
      if (dw.data == nullptr) continue;
      const bool swaps = part.range.is_transposed;
      add_outer_products(p, swaps ? x_head : dy_head, swaps ? dy_head : x_head, part.of(dw, h), dw.row_size());
    }
  });
  return y;
}

/// y[t] = Σ_r u[t, r] · a[r]: back from the rank of an adapter to the map's input.
Tensor product_transposed(Pass& p, const Param& a, const Tensor& u) {
  const std::int64_t r = a.view.rows, n = a.view.cols;
  const auto rows = [](const Tensor& x) { return view_of(x.data, x.rows(), x.row_size(), x.row_size()); };
  const Tensor y = p.tensor({u.rows(), n});
  multiply(p, rows(u), transposed(a.view), y.data, n);
  p.record(OpKind::linear_transposed, {u}, y, [=, &p, &a] {
    const Tensor du = p.grad(u), dy = p.grad(y);
    add_weight_gradient(p, dy, u, a);
    multiply(p, rows(dy), a.view, du.data, r, Into::add);
  });
  return y;
}

}  // namespace

Tensor heads_in(Pass& p, const LinearParams& w, const Tensor& x, const std::optional<AddedSite>& added) {
  const std::int64_t n = x.shape[1], n_rows = w.weight.view.rows;
  const auto multiply_rows = [&](const Param& weight, const Tensor& from) {
    const HeadPart part{{.step = n_rows / n, .first = 0, .count = n_rows / n}};
    return multiply_heads(p, OpKind::heads_in, weight, part, from, {from.rows(), n_rows});
  };
  const auto low_rank = [&](const LowRank& low, float factor, const Tensor& rows) {
    const Tensor each = rows.reshaped({rows.rows() * n, rows.shape[2]});
    const Tensor u = scale(p, factor, product(p, *low.a, each));
    return multiply_rows(low.b, u.reshaped({rows.rows(), n, low.rank()}));
  };
  const Tensor y = adapted(p, w.weight.name, x, multiply_rows(w.weight, x), added, {low_rank});
  add_bias(p, w.bias, y);
  return y;
}

Tensor heads_out(Pass& p, const LinearParams& w, const Tensor& x) {
  const std::int64_t n = x.shape[1];
  const auto multiply_columns = [&](const Param& weight, const Tensor& from) {
    const HeadPart part{{.step = from.shape[2], .first = 0, .count = from.shape[2]}, false};
    return multiply_heads(p, OpKind::heads_out, weight, part, from, {from.rows(), n, weight.view.rows});
  };
  const auto low_rank = [&](const LowRank& low, float factor, const Tensor& rows) {
    const Tensor u = scale(p, factor, multiply_columns(*low.a, rows));
    return product(p, low.b, u.reshaped({rows.rows() * n, low.rank()}));
  };
  return adapted(p, w.weight.name, x, multiply_columns(w.weight, x), {}, {low_rank});
}

Tensor heads_rows(Pass& p, const Param& weight, const HeadRows& rows, const Tensor& x) {
  const std::int64_t n = x.shape[1];
  const auto multiply_rows = [&](const Param& by, const Tensor& from) {
    const std::int64_t n_out = rows.is_transposed ? by.view.cols : rows.count;
    return multiply_heads(p, OpKind::heads_rows, by, {rows}, from, {from.rows(), n, n_out});
  };
  const auto low_rank = [&](const LowRank& low, float factor, const Tensor& from) {
    if (rows.is_transposed) {
      const Tensor u = scale(p, factor, multiply_rows(low.b, from));
      return product_transposed(p, *low.a, u.reshaped({from.rows() * n, low.rank()}));
    }
    const Tensor u = scale(p, factor, product(p, *low.a, from.reshaped({from.rows() * n, from.shape[2]})));
    return multiply_rows(low.b, u.reshaped({from.rows(), n, low.rank()}));
  };
  const Tensor y = multiply_rows(weight, x);
  if (p.ledger != nullptr) {
    p.ledger->multiplies_part(weight, rows.first, x.rows(), n * rows.count * weight.view.cols);
  }
  AdaptedMap map{low_rank, rows};
  if (rows.is_transposed) map.transposed = [&](const Tensor& from) { return multiply_rows(weight, from); };
  return adapted(p, weight.name, x, y, {}, map);
}

Tensor part_of_heads(Pass& p, const Tensor& x, std::int64_t first, std::int64_t count, bool takes_turns) {
  const std::int64_t n = x.shape[1], width = x.shape[2], half = count / 2;
  const auto source = [=](std::int64_t i) {
    return first + (!takes_turns ? i : i < half ? 2 * i : 2 * (i - half) + 1);
  };
  const Tensor y = p.tensor({x.rows(), n, count});
  p.for_rows(x.rows() * n, count, [&](std::int64_t row) {
    for (std::int64_t i = 0; i < count; ++i) y.data[row * count + i] = x.data[row * width + source(i)];
  });
  p.record(OpKind::part_of_heads, {x}, y, [=, &p] {  // dx = dy at the elements that y has
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.for_rows(x.rows() * n, count, [&](std::int64_t row) {
      for (std::int64_t i = 0; i < count; ++i) dx.data[row * width + source(i)] += dy.data[row * count + i];
    });
  });
  return y;
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
