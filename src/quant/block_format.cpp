#include "quant/block_format.h"

#include <cmath>

#include "base/error.h"
#include "quant/formats.h"

namespace vitrine {
namespace {

constexpr BlockFormat kFormats[] = {
    {DType::q8_0, dequantize_q8_0, quantize_q8_0}, {DType::q4_0, dequantize_q4_0, quantize_q4_0},
    {DType::q4_1, dequantize_q4_1, nullptr},       {DType::q5_0, dequantize_q5_0, nullptr},
    {DType::q5_1, dequantize_q5_1, nullptr},       {DType::q2_k, dequantize_q2_k, nullptr},
    {DType::q3_k, dequantize_q3_k, nullptr},       {DType::q4_k, dequantize_q4_k, nullptr},
    {DType::q5_k, dequantize_q5_k, nullptr},       {DType::q6_k, dequantize_q6_k, quantize_q6_k},
};

}  // namespace

std::span<const BlockFormat> all_block_formats() { return kFormats; }

const BlockFormat& block_format(DType dtype) {
  for (const BlockFormat& format : kFormats) {
    if (format.dtype == dtype) return format;
  }
  throw InternalError("quant", "{} is not a block format", name_of(dtype));
}

void dequantize_row(DType dtype, const std::byte* x, std::int64_t n, float* y) {
  const BlockFormat& format = block_format(dtype);
  const BlockSize size = block_size(dtype);
  for (std::int64_t i = 0; i < n; i += size.elements, x += size.bytes) format.dequantize(x, y + i);
}

void quantize_row(DType dtype, const float* x, std::int64_t n, std::byte* y, std::string_view where) {
  const BlockFormat& format = block_format(dtype);
  const BlockSize size = block_size(dtype);
  if (format.quantize == nullptr) throw Unsupported(where, "{} can be read but not written", name_of(dtype));
  for (std::int64_t i = 0; i < n; i += size.elements, y += size.bytes) {
    for (std::int64_t j = i; j < i + size.elements; ++j) {
      if (!std::isfinite(x[j])) throw BadInput(where, "expected finite weights to quantize, got {}", x[j]);
    }
    if (!format.quantize(x + i, y)) {
      throw BadInput(where, "expected weights in the range of {}, got larger ones", name_of(dtype));
    }
  }
}

}  // namespace vitrine
