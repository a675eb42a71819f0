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
void dequantize(const RowBlock& block, float* y) {
  constexpr PartKind kKind = part_kind(kType);
  read_parts(Format<kType>{}, block, [&](const PartOf<RowBlock>& part) {
    std::uint8_t codes[kPart];
    std::memcpy(codes, part.codes, kPart);
    for (int half = 0; half < 2; ++half) {
      const float scale = kKind.has_halves ? part.scale * part.sub_scale.half[half] : part.scale;
      const float min = kKind.has_halves ? part.min * part.sub_min.half[half] : part.min;
      for (int k = 16 * half; k < 16 * half + 16; ++k) {
        float& element = y[element_of_code<kType>(k)];
        element = scale * static_cast<float>(codes[k] - kKind.offset);
        if constexpr (kKind.has_min) element -= min;
      }
    }
    y += kPart;
  });
}

template <DType kType>
void dequantize(const std::byte* block, float* y) {
  dequantize<kType>(RowBlock{block}, y);
}

constexpr BlockFormat kFormats[] = {
    {DType::q8_0, dequantize<DType::q8_0>, quantize_q8_0},    {DType::q4_0, dequantize<DType::q4_0>, quantize_q4_0},
    {DType::q4_1, dequantize<DType::q4_1>, nullptr},          {DType::q5_0, dequantize<DType::q5_0>, nullptr},
    {DType::q5_1, dequantize<DType::q5_1>, nullptr},          {DType::q2_k, dequantize<DType::q2_k>, nullptr},
    {DType::q3_k, dequantize<DType::q3_k>, nullptr},          {DType::q4_k, dequantize<DType::q4_k>, nullptr},
    {DType::q5_k, dequantize<DType::q5_k>, nullptr},          {DType::q6_k, dequantize<DType::q6_k>, nullptr},
    {DType::iq4_nl, dequantize<DType::iq4_nl>, nullptr},      {DType::iq4_xs, dequantize<DType::iq4_xs>, nullptr},
    {DType::mxfp4, dequantize<DType::mxfp4>, quantize_mxfp4},
};

}  // namespace

std::span<const BlockFormat> all_block_formats() { return kFormats; }

const BlockFormat& block_format(DType dtype) {
  for (const BlockFormat& format : kFormats) {
    if (format.dtype == dtype) return format;
  }
  throw InternalError("quant", "{} is not a block format", name_of(dtype));
}

void dequantize_row(DType dtype, const std::byte* x, std::int64_t n, float* y, const std::byte* exponents) {
  const BlockSize size = block_size(dtype);
  if (dtype == DType::mxfp4_pairs) {
    for (std::int64_t i = 0; i < n; i += size.elements, x += size.bytes) {
      dequantize<DType::mxfp4_pairs>(RowBlock{x, exponents++}, y + i);
    }
    return;
  }
  const BlockFormat& format = block_format(dtype);
  for (std::int64_t i = 0; i < n; i += size.elements, x += size.bytes) format.dequantize(x, y + i);
}

void copy_mxfp4(const std::byte* pairs, const std::byte* exponents, std::int64_t n, std::byte* to) {
  const auto code = [&](int k) { return std::to_integer<unsigned>(pairs[k / 2]) >> (k % 2 * 4) & 15U; };
  for (std::int64_t i = 0; i < n; i += kPart, pairs += kPart / 2, ++exponents) {
    *to++ = *exponents;
    for (int k = 0; k < kPart / 2; ++k) *to++ = byte_of(static_cast<int>(code(k) | code(kPart / 2 + k) << 4));
  }
}

}  // namespace vitrine
