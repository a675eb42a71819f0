#include "ops/linear.h"

#include <algorithm>

#include "base/error.h"
#include "ops/elementwise.h"

namespace vitrine {
namespace {

constexpr std::int64_t kUninterrupted = std::int64_t{1} << 30;  // operations between two looks at the interrupt
constexpr std::int64_t kBlock = 48;                             // rows of w that are worth beginning with
constexpr std::int64_t kPanel = std::int64_t{1} << 16;          // floats of a dequantized panel: 256 KiB

/// Rows that are multiplied at a time: of a quantized weight those that fit into a panel.
std::int64_t rows_at_once(const MatrixView& weight) {
  return is_blocks(weight.dtype) ? std::max(kBlock, kPanel / weight.cols) : weight.rows;
}

/// `n` panels for a quantized weight, one a thread; nothing for another.
Tensor make_panels(Pass& p, const MatrixView& weight, int n) {
  if (!is_blocks(weight.dtype)) return {};
  return p.tensor({n, std::min(weight.rows, rows_at_once(weight)) * weight.cols});
}

/// The weight as a product takes it: itself, or its rows as floats in `panel`.
MatrixView multipliable(const Pass& p, const MatrixView& weight, float* panel) {
  if (!is_blocks(weight.dtype)) return weight;
  for (std::int64_t r = 0; r < weight.rows; ++r) {
    p.widen(weight.at(r, 0), weight.dtype, weight.cols, panel + r * weight.cols);
  }
  return {reinterpret_cast<const std::byte*>(panel), DType::f32, weight.rows, weight.cols, weight.cols, 1};
}

/// x in the order in which the kernels read it.
const float* packed(Pass& p, const MatrixView& x) {
  float* const to = p.tensor({packed_size(p.kernels, x.rows, x.cols)}).data;
  const std::int64_t tile = p.kernels.packed_rows, n_tiles = (x.rows + tile - 1) / tile;
  const std::int64_t grain = Machine::kWorthAThread / (tile * x.cols + 1) + 1;
  p.parallel_for(n_tiles, grain, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t first = begin * tile, n = std::min(end * tile, x.rows) - first;
    p.kernels.pack(x.row_range(first, n), to + packed_size(p.kernels, first, x.cols));
  });
  return to;
}

/// multiply(some rows of the weight as a product takes them, the first of them), for all rows, over threads.
template <class Multiply>
void over_rows(Pass& p, const MatrixView& weight, std::int64_t n_tokens, Multiply multiply) {
  const Tensor panels = make_panels(p, weight, p.pool.size());
  const std::int64_t operations = n_tokens * weight.cols + 1;
  const std::int64_t grain = Machine::kWorthAThread / operations + 1;
  const std::int64_t most =
      std::min(rows_at_once(weight), std::max<std::int64_t>(1, kUninterrupted / operations / kBlock) * kBlock);
  p.parallel_for(weight.rows, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* const panel = panels.data != nullptr ? panels.row(thread) : nullptr;
    for (std::int64_t first = begin; first < end; first += most) {
      p.check_interrupt();
      multiply(multipliable(p, weight.row_range(first, std::min(most, end - first)), panel), first);
    }
  });
}

MatrixView transposed(const MatrixView& m) { return {m.data, m.dtype, m.cols, m.rows, m.col_stride, m.row_stride}; }

/// y[t, r] = Σ_k x[t, k] · w[r, k], over threads; rows of y are w.rows floats apart.
void multiply(Pass& p, const MatrixView& x, const MatrixView& weight, float* y) {
  const ArenaScope scope(p.arena);
  if (x.col_stride == 1 && !worth_packing(p.kernels, x.rows, weight)) {
    const auto* const rows = reinterpret_cast<const float*>(x.data);
    return over_rows(p, weight, x.rows, [&](const MatrixView& w, std::int64_t first) {
      p.kernels.matmul(rows, x.row_stride, x.rows, w, y + first, weight.rows);
    });
  }
  const float* const tiles = packed(p, x);
  over_rows(p, weight, x.rows, [&](const MatrixView& w, std::int64_t first) {
    p.kernels.matmul_packed(tiles, x.rows, w, y + first, weight.rows);
  });
}

/// dx[t, i] += Σ_o dy[t, o] · w[o, i]
void add_input_gradient(Pass& p, const MatrixView& w, const Tensor& dy, const Tensor& dx) {
  const ArenaScope scope(p.arena);
  const Tensor part = p.tensor({dy.rows(), w.cols});
  multiply(p, view_of(dy.data, dy.rows(), w.rows, w.rows), transposed(w), part.data);
  accumulate(p, part, dx.reshaped(part.shape));
}

/// dw[o, i] += Σ_t dy[t, o] · x[t, i], t in 16-lane order: some rows of dw at a time.
void add_weight_gradient(Pass& p, const Tensor& x, const Tensor& dy, const Tensor& dw) {
  constexpr std::int64_t kRows = 768;
  const std::int64_t n = x.rows(), out = dw.shape[0], in = dw.shape[1];
  for (std::int64_t first = 0; first < out; first += kRows) {
    p.check_interrupt();
    const std::int64_t rows = std::min(kRows, out - first);
    const ArenaScope scope(p.arena);
    const Tensor part = p.tensor({rows, in});
    const MatrixView dy_columns = view_of(dy.data, n, out, out).col_range(first, rows);
    multiply(p, transposed(dy_columns), transposed(view_of(x.data, n, in, in)), part.data);
    accumulate(p, part, dw.row_range(first, rows));
  }
}

}  // namespace

Tensor linear(Pass& p, const Param& weight, const Tensor& x) {
  const MatrixView& w = weight.view;
  if (x.row_size() != w.cols) {
    throw InternalError("linear", "expected rows of {} elements, got {}", w.cols, to_string(x.shape));
  }
  const Tensor y = p.tensor({x.rows(), w.rows});
  multiply(p, view_of(x.data, x.rows(), w.cols, w.cols), w, y.data);
  if (p.is_taped()) check_has_backward(weight);
  p.record("linear", {x}, y, [&p, &weight, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y), dw = p.grad(weight);
    if (dw.data != nullptr) add_weight_gradient(p, x, dy, dw);
    add_input_gradient(p, weight.view, dy, dx);
  });
  if (p.ledger != nullptr) {
    const double flops = 2 * static_cast<double>(x.rows()) * static_cast<double>(w.cols) * static_cast<double>(w.rows);
    p.ledger->reads(weight);
    p.ledger->charge({.flops = flops, .visible_flops = flops});
  }
  return y;
}

void check_has_backward(const Param& weight) {
  if (!is_blocks(weight.view.dtype)) return;
  throw Unsupported(weight.name, "gradients do not go through a weight of {} blocks", name_of(weight.view.dtype));
}

void product(Pass& p, const MatrixView& weight, std::int64_t first_col, const StridedRows& x, const StridedRows& y) {
  const ArenaScope scope(p.arena);
  const Tensor panel = make_panels(p, weight, 1);
  const std::int64_t most = rows_at_once(weight);
  for (std::int64_t first = 0; first < weight.rows; first += most) {
    const MatrixView rows = multipliable(p, weight.row_range(first, std::min(most, weight.rows - first)), panel.data);
    p.kernels.matmul(x.data, x.stride, x.n, rows.col_range(first_col, x.size), y.data + first, y.stride);
  }
}

void add_bias(Pass& p, const Param& bias, const Tensor& y) {
  if (!bias.present()) return;
  const float* b = p.vector(bias);
  if (p.ledger != nullptr) p.ledger->reads(bias);
  const std::int64_t n = y.row_size();
  p.for_rows(y.rows(), n, [&](std::int64_t t) { p.kernels.add(y.row(t), b, n, y.row(t)); });
  if (!p.is_taped()) return;
  p.training.tape->watch(y, [&p, &bias, n](const Tensor& dy) {  // db = Σ_t dy
    const Tensor db = p.grad(bias);
    if (db.data == nullptr) return;
    p.for_columns(n, dy.rows(), [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t t = 0; t < dy.rows(); ++t) {
        p.kernels.add(db.data + first, dy.row(t) + first, count, db.data + first);
      }
    });
  });
}

Tensor linear(Pass& p, const LinearParams& w, const Tensor& x) {
  const Tensor y = linear(p, w.weight, x);
  add_bias(p, w.bias, y);
  return y;
}

}  // namespace vitrine
