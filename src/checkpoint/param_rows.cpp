#include "checkpoint/param_rows.h"

#include "kernels/kernels.h"
#include "quant/block_format.h"

namespace vitrine {

void read_row(const MatrixView& view, std::int64_t row, std::span<float> out) {
  const auto n = static_cast<std::int64_t>(out.size());
  if (is_blocks(view.dtype)) return dequantize_row(view.dtype, view.at(row, 0), n, out.data());
  const Kernels& kernels = default_kernels();
  if (view.col_stride == 1) return kernels.widen(view.at(row, 0), view.dtype, n, out.data());
  for (std::int64_t i = 0; i < n; ++i) kernels.widen(view.at(row, i), view.dtype, 1, out.data() + i);
}

}  // namespace vitrine
