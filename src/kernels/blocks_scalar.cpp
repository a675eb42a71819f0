// Products with quantized matrices in plain C++, one row of w at a time: the reference for blocks-inl.h.
#include "quant/one_row.h"
// The functions of a row come first, because the formats are written in terms of them.
#include <cstring>

#include "kernels/round_parts-inl.h"
#include "kernels/tables.h"
#include "quant/parts-inl.h"
#include "quant/with_format-inl.h"

namespace vitrine {
namespace {

using RowPart = PartOf<RowBlock>;

/// y[t] += the product of a part of w with that of row t of x. x: rows `apart` parts apart; y: ldy floats apart.
void add_part(PartKind kind, const RowPart& w, const RoundedPart* x, std::int64_t apart, std::int64_t tokens, float* y,
              std::int64_t ldy) {
  std::int8_t codes[kPart];  // 8 bits with an offset of 128, or fewer
  for (int i = 0; i < kPartWords; ++i) {
    std::memcpy(codes + 4 * i, &w.codes[i], 4);
    for (int k = 4 * i; k < 4 * i + 4; ++k) codes[k] = static_cast<std::int8_t>(codes[k] - kind.offset);
  }
  for (std::int64_t t = 0; t < tokens; ++t, x += apart, y += ldy) {
    std::int32_t sums[2] = {0, 0};
    for (int half = 0; half < 2; ++half) {
      for (int k = 16 * half; k < 16 * half + 16; ++k) sums[half] += codes[k] * x->q[k];
    }
    float sum, minus_sum;
    if (kind.has_halves) {
      sum = static_cast<float>(sums[0]) * w.sub_scale.half[0] + static_cast<float>(sums[1]) * w.sub_scale.half[1];
      minus_sum =
          static_cast<float>(x->sums[0]) * w.sub_min.half[0] + static_cast<float>(x->sums[1]) * w.sub_min.half[1];
    } else {
      sum = static_cast<float>(sums[0] + sums[1]);
      minus_sum = static_cast<float>(x->sums[0] + x->sums[1]);
    }
    *y = __builtin_fmaf(sum, w.scale * x->scale, *y);
    if (kind.has_min) *y = __builtin_fmaf(minus_sum, w.min * x->scale, *y);
  }
}

template <class F>
void multiply_rows(const RoundedPart* x, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy) {
  const std::int64_t parts = w.cols / kPart, stride = w.row_stride / F::kSize.elements * F::kSize.bytes;
  for (std::int64_t r = 0; r < w.rows; ++r, ++y) {
    for (std::int64_t t = 0; t < tokens; ++t) y[t * ldy] = 0;
    const RoundedPart* x_part = x;
    const std::byte* block = w.data + r * stride;
    const std::byte* scale = F::kScalesApart ? w.scales.data + w.scales.index(r, 0) : nullptr;
    for (std::int64_t b = 0; b < parts / F::kParts; ++b, block += F::kSize.bytes, scale += F::kScalesApart) {
      float zero = 0;
      if constexpr (F::kGroups) {
        const std::int64_t at = w.scales.index(r, b * kPart);
        scale = w.scales.data + at * std::int64_t{sizeof(float)};
        const std::uint8_t* const zeros = w.scales.groups->zeros;
        zero = static_cast<float>((zeros != nullptr ? zeros[at] : kMiddle<F::kDType>)-F::kKind.offset);
      }
      read_parts(F{}, RowBlock{block, scale, zero},
                 [&](const RowPart& part) { add_part(F::kKind, part, x_part++, parts, tokens, y, ldy); });
    }
  }
}

void multiply(const RoundedPart* x, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy, float*) {
  with_format(w.dtype, [&](auto format) { multiply_rows<decltype(format)>(x, tokens, w, y, ldy); });
}

}  // namespace

constinit const BlockKernels kScalarBlocks = {[](const float* x, std::int64_t n, DType w, RoundedPart* to) {
                                                round_parts(x, n, to);
                                                with_format(w,
                                                            [&](auto format) { order_parts<decltype(format)>(n, to); });
                                              },
                                              multiply};

}  // namespace vitrine
