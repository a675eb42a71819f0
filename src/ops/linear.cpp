#include "ops/linear.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr std::int64_t kUninterrupted = std::int64_t{1} << 28;  // operations between two looks at the interrupt

}  // namespace

Tensor linear(Pass& p, const MatrixView& weight, const Tensor& x) {
  if (x.row_size() != weight.cols) {
    throw InternalError("linear", "expected rows of {} elements, got {}", weight.cols, to_string(x.shape));
  }
  const std::int64_t n_rows = x.rows();
  const Tensor y = p.tensor({n_rows, weight.rows});
  const std::int64_t grain = Pass::kWorthAThread / (n_rows * weight.cols + 1) + 1;
  const std::int64_t most = std::max<std::int64_t>(64, kUninterrupted / (n_rows * weight.cols + 1));
  p.pool.parallel_for(weight.rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t first = begin; first < end; first += most) {
      p.check_interrupt();
      const std::int64_t n = std::min(most, end - first);
      p.kernels.matmul(x.data, weight.cols, n_rows, weight.row_range(first, n), y.data + first, weight.rows);
    }
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
