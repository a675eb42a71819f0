// Blocks of 32 elements with one scale d; q4_1 and q5_1 also have an offset m.
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

/// Converts 32 elements of 4 bits by `value`: element i in the low half of byte i, element 16 + i in the high half. Bit
/// i of `fifth` is bit 4 of element i.
template <class Value>
void unpack(const std::byte* halves, std::uint32_t fifth, float* y, Value&& value) {
  for (int i = 0; i < 16; ++i) {
    const int q = byte_at(halves, i);
    const int low = static_cast<int>((fifth >> i) & 1U) << 4, high = static_cast<int>((fifth >> (16 + i)) & 1U) << 4;
    y[i] = value((q & 15) | low);
    y[16 + i] = value((q >> 4) | high);
  }
}

}  // namespace

// q8_0, 34 bytes: half d, 32 signed bytes q.     y = q d
void dequantize_q8_0(const std::byte* block, float* y) {
  const float d = half_at(block);
  for (int i = 0; i < kBlock; ++i) y[i] = static_cast<float>(signed_at(block, 2 + i)) * d;
}

// q4_0, 18 bytes: half d, 16 bytes with 4 bits of each element.     y = (q − 8) d
void dequantize_q4_0(const std::byte* block, float* y) {
  const float d = half_at(block);
  unpack(block + 2, 0, y, [d](int q) { return static_cast<float>(q - 8) * d; });
}

// q4_1, 20 bytes: half d, half m, 16 bytes as in q4_0.     y = q d + m
void dequantize_q4_1(const std::byte* block, float* y) {
  const float d = half_at(block), m = half_at(block + 2);
  unpack(block + 4, 0, y, [d, m](int q) { return static_cast<float>(q) * d + m; });
}

// q5_0, 22 bytes: half d, 32 bits with the fifth bit of each element, 16 bytes as in q4_0.     y = (q − 16) d
void dequantize_q5_0(const std::byte* block, float* y) {
  const float d = half_at(block);
  unpack(block + 6, word_at(block + 2), y, [d](int q) { return static_cast<float>(q - 16) * d; });
}

// q5_1, 24 bytes: half d, half m, the rest as in q5_0.     y = q d + m
void dequantize_q5_1(const std::byte* block, float* y) {
  const float d = half_at(block), m = half_at(block + 2);
  unpack(block + 8, word_at(block + 4), y, [d, m](int q) { return static_cast<float>(q) * d + m; });
}

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
