#include "ops/linear.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kUninterrupted = std::int64_t{1} << 28;  // operations between two looks at the interrupt
constexpr std::int64_t kPanel = std::int64_t{1} << 16;          // floats: 256 KiB, which stay in a core's second cache

/// Rows that are multiplied at a time: of a quantized weight those that fit into a panel.
std::int64_t rows_at_once(const MatrixView& weight) {
  return is_blocks(weight.dtype) ? std::max<std::int64_t>(1, kPanel / weight.cols) : weight.rows;
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

}  // namespace

Tensor linear(Pass& p, const MatrixView& weight, const Tensor& x) {
  if (x.row_size() != weight.cols) {
    throw InternalError("linear", "expected rows of {} elements, got {}", weight.cols, to_string(x.shape));
  }
  const std::int64_t n_rows = x.rows();
  const Tensor y = p.tensor({n_rows, weight.rows});
  const ArenaScope scope(p.arena);
  const Tensor panels = make_panels(p, weight, p.pool.size());
  const std::int64_t grain = Pass::kWorthAThread / (n_rows * weight.cols + 1) + 1;
  const std::int64_t most =
      std::min(rows_at_once(weight), std::max<std::int64_t>(64, kUninterrupted / (n_rows * weight.cols + 1)));
  p.pool.parallel_for(weight.rows, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* const panel = panels.data != nullptr ? panels.row(thread) : nullptr;
    for (std::int64_t first = begin; first < end; first += most) {
      p.check_interrupt();
      const std::int64_t n = std::min(most, end - first);
      p.kernels.matmul(x.data, weight.cols, n_rows, multipliable(p, weight.row_range(first, n), panel), y.data + first,
                       weight.rows);
    }
  });
  return y;
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
  const std::int64_t n = y.row_size();
  p.for_rows(y.rows(), n, [&](std::int64_t t) { p.kernels.add(y.row(t), b, n, y.row(t)); });
}

Tensor linear(Pass& p, const LinearParams& w, const Tensor& x) {
  const Tensor y = linear(p, w.weight.view, x);
  add_bias(p, w.bias, y);
  return y;
}

}  // namespace vitrine
