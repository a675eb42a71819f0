// Quantizes to q8_0 and q4_0: blocks of 32 elements with one scale d.
//
// Source: ggml-org/ggml, src/ggml-quants.c (quantize_row_q8_0_ref, quantize_row_q4_0_ref).
#include <algorithm>
#include <cmath>

#include "quant/formats.h"

namespace vitrine {
namespace {

constexpr int kBlock = 32;

/// 1 / d, as in ggml. If 1 / d is infinite, d is too small for a half-precision number, and all elements become 0.
float inverse(float d) {
  const float inverse = d != 0 ? 1.0F / d : 0.0F;
  return std::isfinite(inverse) ? inverse : 0.0F;
}

}  // namespace

// d is the largest magnitude divided by 127; ties round away from zero.
bool quantize_q8_0(const float* x, std::byte* block) {
  const float d = std::abs(extreme_of(x, kBlock)) / 127.0F, scale = inverse(d);
  put_half(block, d);
  for (int i = 0; i < kBlock; ++i) block[2 + i] = byte_of(static_cast<int>(std::round(x[i] * scale)));
  return d <= kLargestHalf;
}

// The element with the largest magnitude becomes −8.
bool quantize_q4_0(const float* x, std::byte* block) {
  const float d = extreme_of(x, kBlock) / -8.0F, scale = inverse(d);
  put_half(block, d);
  for (int i = 0; i < 16; ++i) {
    const int low = std::min(15, static_cast<int>(x[i] * scale + 8.5F));
    const int high = std::min(15, static_cast<int>(x[16 + i] * scale + 8.5F));
    block[2 + i] = byte_of(low | high << 4);
  }
  return std::abs(d) <= kLargestHalf;
}

}  // namespace vitrine
