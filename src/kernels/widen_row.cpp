#include "kernels/widen_row.h"

#include "quant/block_format.h"
#include "quant/groups.h"

namespace vitrine {

void widen_row(const Kernels& kernels, const MatrixView& w, std::int64_t row, std::int64_t n, float* y) {
  const BlockScales& s = w.scales;
  const std::byte* const x = w.at(row, 0);
  if (w.dtype == DType::f8_e4m3) {
    const auto* const scales = reinterpret_cast<const float*>(s.data);
    if (s.col_stride != 1) return kernels.widen_f8(x, n, scales + s.index(row, 0), n, 0, y);
    return kernels.widen_f8(x, n, scales + s.index(row, -s.first_col), s.block_cols, s.first_col, y);
  }
  if (has_groups(w.dtype)) return dequantize_groups(w, row, n, y);
  if (!is_blocks(w.dtype)) return kernels.widen(x, w.dtype, n, y);
  dequantize_row(w.dtype, x, n, y, s.data != nullptr ? s.data + s.index(row, 0) : nullptr);
}

}  // namespace vitrine
