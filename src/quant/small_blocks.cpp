// Quantizes to q8_0, q4_0 and mxfp4: blocks of 32 elements with one scale d.
//
// Source: ggml-org/ggml, src/ggml-quants.c (quantize_row_q8_0_ref, quantize_row_q4_0_ref, quantize_row_mxfp4_ref).
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "quant/formats.h"

namespace vitrine {
namespace {

constexpr int kBlock = 32;

/// 1 / d, as in ggml. If 1 / d is infinite, d is too small for a half-precision number, and all elements become 0.
float inverse(float d) {
  const float inverse = d != 0 ? 1.0F / d : 0.0F;
  return std::isfinite(inverse) ? inverse : 0.0F;
}

/// ⌊log2 x⌋ for x > 0, of the logarithm rounded to float32, as in ggml.
int floor_of_log2(float x) {
  return static_cast<int>(std::floor(static_cast<float>(math::log(static_cast<double>(x)) / math::log(2.0))));
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

// The largest magnitude is from 4 to 8 times the scale 2^(e − 127), and every element becomes the nearest value; of two
// equally near ones, the one that is smaller in magnitude.
bool quantize_mxfp4(const float* x, std::byte* block) {
  constexpr float kTwice[] = {0, 1, 2, 3, 4, 6, 8, 12};  // twice the magnitudes
  const float largest = std::abs(extreme_of(x, kBlock));
  const int e = largest > 0 ? std::max(0, floor_of_log2(largest) - 2 + 127) : 0;
  const float half = std::ldexp(1.0F, e - 128);
  const auto code = [&](float value) {
    int best = 0;
    for (int i = 1; i < 8; ++i) {
      if (std::abs(kTwice[i] * half - std::abs(value)) < std::abs(kTwice[best] * half - std::abs(value))) best = i;
    }
    return value < 0 && best > 0 ? best | 8 : best;
  };
  block[0] = byte_of(e);
  for (int i = 0; i < 16; ++i) block[1 + i] = byte_of(code(x[i]) | code(x[16 + i]) << 4);
  return true;
}

}  // namespace vitrine
