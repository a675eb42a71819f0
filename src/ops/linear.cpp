#include "ops/linear.h"

#include <algorithm>

#include "base/error.h"

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
  const std::int64_t grain = Pass::kWorthAThread / (tile * x.cols + 1) + 1;
  p.pool.parallel_for(n_tiles, grain, [&](std::int64_t begin, std::int64_t end, int) {
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
  const std::int64_t grain = Pass::kWorthAThread / operations + 1;
  const std::int64_t most =
      std::min(rows_at_once(weight), std::max<std::int64_t>(1, kUninterrupted / operations / kBlock) * kBlock);
  p.pool.parallel_for(weight.rows, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* const panel = panels.data != nullptr ? panels.row(thread) : nullptr;
    for (std::int64_t first = begin; first < end; first += most) {
      p.check_interrupt();
      multiply(multipliable(p, weight.row_range(first, std::min(most, end - first)), panel), first);
    }
  });
}

}  // namespace

Tensor linear(Pass& p, const MatrixView& weight, const Tensor& x) {
  if (x.row_size() != weight.cols) {
    throw InternalError("linear", "expected rows of {} elements, got {}", weight.cols, to_string(x.shape));
  }
  const std::int64_t n = x.rows(), d = weight.cols;
  const Tensor y = p.tensor({n, weight.rows});
  const ArenaScope scope(p.arena);
  if (!worth_packing(n, weight)) {
    over_rows(p, weight, n, [&](const MatrixView& w, std::int64_t first) {
      p.kernels.matmul(x.data, d, n, w, y.data + first, weight.rows);
    });
    return y;
  }
  const float* const tiles = packed(p, {reinterpret_cast<const std::byte*>(x.data), DType::f32, n, d, d, 1});
  over_rows(p, weight, n, [&](const MatrixView& w, std::int64_t first) {
    p.kernels.matmul_packed(tiles, n, w, y.data + first, weight.rows);
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
