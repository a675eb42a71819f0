#include "quant/block_format.h"

#include <cstring>

#include "base/error.h"
#include "quant/formats.h"
#include "quant/one_row.h"
// The functions of a row come first, because everything else is written in terms of them.
#include "quant/parts-inl.h"

namespace vitrine {
namespace {

template <DType kType>
void dequantize(const std::byte* block, float* y) {
  constexpr PartKind kKind = part_kind(kType);
  read_parts(Format<kType>{}, RowBlock{block}, [&](const PartOf<RowBlock>& part) {
    std::uint8_t codes[kPart];
    std::memcpy(codes, part.codes, kPart);
    for (int half = 0; half < 2; ++half) {
      const float scale = kKind.has_halves ? part.scale * part.sub_scale.half[half] : part.scale;
      const float min = kKind.has_halves ? part.min * part.sub_min.half[half] : part.min;
      for (int k = 16 * half; k < 16 * half + 16; ++k) {
        y[k] = scale * static_cast<float>(codes[k] - kKind.offset);
        if constexpr (kKind.has_min) y[k] -= min;
      }
    }
    y += kPart;
  });
}

constexpr BlockFormat kFormats[] = {
    {DType::q8_0, dequantize<DType::q8_0>, quantize_q8_0}, {DType::q4_0, dequantize<DType::q4_0>, quantize_q4_0},
    {DType::q4_1, dequantize<DType::q4_1>, nullptr},       {DType::q5_0, dequantize<DType::q5_0>, nullptr},
    {DType::q5_1, dequantize<DType::q5_1>, nullptr},       {DType::q2_k, dequantize<DType::q2_k>, nullptr},
    {DType::q3_k, dequantize<DType::q3_k>, nullptr},       {DType::q4_k, dequantize<DType::q4_k>, nullptr},
    {DType::q5_k, dequantize<DType::q5_k>, nullptr},       {DType::q6_k, dequantize<DType::q6_k>, nullptr},
    {DType::iq4_nl, dequantize<DType::iq4_nl>, nullptr},   {DType::iq4_xs, dequantize<DType::iq4_xs>, nullptr},
    {DType::mxfp4, dequantize<DType::mxfp4>, nullptr},
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

}  // namespace vitrine
