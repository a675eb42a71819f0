#include "checkpoint/param_rows.h"

#include "kernels/widen_row.h"

namespace vitrine {

void read_row(const MatrixView& view, std::int64_t row, std::span<float> out) {
  const auto n = static_cast<std::int64_t>(out.size());
  const Kernels& kernels = default_kernels();
  if (view.col_stride == 1) return widen_row(kernels, view, row, n, out.data());
  for (std::int64_t i = 0; i < n; ++i) widen_row(kernels, view.col_range(i, 1), row, 1, out.data() + i);
}

}  // namespace vitrine
