#include "kernels/quantize.h"

#include "base/error.h"
#include "quant/block_format.h"

namespace vitrine {
namespace {

bool quantize_blocks(const BlockFormat& format, const float* x, std::int64_t n, std::byte* y) {
  const BlockSize size = block_size(format.dtype);
  for (std::int64_t i = 0; i < n; i += size.elements, y += size.bytes) {
    if (!format.quantize(x + i, y)) return false;
  }
  return true;
}

}  // namespace

void quantize_rows(const Kernels& kernels, DType dtype, const float* x, std::int64_t rows, std::int64_t cols,
                   const float* importance, std::byte* y, std::string_view where) {
  if (!can_quantize(dtype)) throw Unsupported(where, "{} can be read but not written", name_of(dtype));
  const std::int64_t n = rows * cols;
  if (!kernels.all_finite(x, n)) throw BadInput(where, "expected finite weights to quantize, got infinity or NaN");
  const BlockFormat& format = block_format(dtype);
  const bool simple =
      dtype == DType::q8_0 || dtype == DType::mxfp4 || (format.quantize != nullptr && importance == nullptr);
  const bool fits = simple ? quantize_blocks(format, x, n, y) : kernels.quantize(dtype, x, rows, cols, importance, y);
  if (!fits) throw BadInput(where, "expected weights in the range of {}, got larger ones", name_of(dtype));
}

}  // namespace vitrine
