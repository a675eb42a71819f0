#include "ops/linear.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kUninterrupted = std::int64_t{1} << 30;  // operations between two looks at the interrupt
constexpr std::int64_t kBlock = 48;                             // rows of w that are worth beginning with

/// x in the order in which the kernels read it.
const float* packed(Pass& p, const MatrixView& x) {
  float* const to = p.arena.tensor({packed_size(p.kernels, x.rows, x.cols)}).data;
  const std::int64_t tile = p.kernels.packed_rows, n_tiles = (x.rows + tile - 1) / tile;
  const std::int64_t grain = Pass::kWorthAThread / (tile * x.cols + 1) + 1;
  p.pool.parallel_for(n_tiles, grain, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t first = begin * tile, n = std::min(end * tile, x.rows) - first;
    p.kernels.pack(x.row_range(first, n), to + packed_size(p.kernels, first, x.cols));
  });
  return to;
}

/// product(first row, rows) for all rows of w, over threads.
template <class Product>
void over_rows(Pass& p, const MatrixView& w, std::int64_t n_tokens, Product product) {
  const std::int64_t operations = n_tokens * w.cols + 1;
  const std::int64_t grain = Pass::kWorthAThread / operations + 1;
  const std::int64_t most = std::max<std::int64_t>(1, kUninterrupted / operations / kBlock) * kBlock;
  p.pool.parallel_for(w.rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t first = begin; first < end; first += most) {
      p.check_interrupt();
      product(first, std::min(most, end - first));
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
  if (!worth_packing(n, weight)) {
    over_rows(p, weight, n, [&](std::int64_t first, std::int64_t rows) {
      p.kernels.matmul(x.data, d, n, weight.row_range(first, rows), y.data + first, weight.rows);
    });
    return y;
  }
  const ArenaScope scope(p.arena);
  const float* const tiles = packed(p, {reinterpret_cast<const std::byte*>(x.data), DType::f32, n, d, d, 1});
  over_rows(p, weight, n, [&](std::int64_t first, std::int64_t rows) {
    p.kernels.matmul_packed(tiles, n, weight.row_range(first, rows), y.data + first, weight.rows);
  });
  return y;
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
