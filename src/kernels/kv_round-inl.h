// The rotation of heads, and the rounding of keys and values to int8 and int4 (tensor/kv_type.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/kv-inl.h"
#include "kernels/rows-inl.h"

namespace vitrine {
namespace {

/// The signs of a Hadamard matrix of sixteen rows.
struct HadamardSigns {
  float of[kLanes][kLanes] = {};

  constexpr HadamardSigns() {
    for (int i = 0; i < kLanes; ++i) {
      for (int j = 0; j < kLanes; ++j) of[i][j] = __builtin_popcount(static_cast<unsigned>(i & j)) % 2 == 0 ? 1 : -1;
    }
  }
};
constexpr HadamardSigns kHadamard;

void rotate(const float* x, std::int64_t n, float* y) {
  const std::int64_t part = n & -n;
  if (part < kLanes) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i];
    return;
  }
  const Vec factor = broadcast(1.0f / __builtin_sqrtf(static_cast<float>(part)));
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec sum = zero();
    for (int j = 0; j < kLanes; ++j) sum = fma(broadcast(x[i + j]), load_f32(kHadamard.of[j]), sum);
    store_f32(sum * factor, y + i);
  }
  for (std::int64_t half = kLanes; half < part; half *= 2) {
    for (std::int64_t i = 0; i < n; i += 2 * half) {
      for (std::int64_t j = i; j < i + half; j += kLanes) {
        const Vec a = load_f32(y + j), b = load_f32(y + j + half);
        store_f32(a + b, y + j);
        store_f32(a - b, y + j + half);
      }
    }
  }
}

/// Writes `scale` as an f16 number, a NaN if it is not finite. Returns the number.
inline float store_scale(float scale, std::byte* to) {
  store_f16_first(broadcast(scale), to, 1);
  float stored[kLanes];
  store_f32(broadcast_f16(to), stored);
  if (stored[0] < __builtin_inff()) return stored[0];
  store_f16_first(broadcast(__builtin_nanf("")), to, 1);
  return __builtin_nanf("");
}

/// 1 / scale; 0 for a scale of 0 or NaN.
inline float inverse_of(float scale) { return scale > 0 ? 1 / scale : 0; }

/// The largest elements of a block and of its negative; NaN if any element is.
struct Extremes {
  float high, minus_low;
};
inline Extremes extremes_of(const float* x, int count) {
  float negative[kKvBlock];
  scale(x, count, -1.0f, negative);
  return {max(x, count), max(negative, count)};
}

/// codes[i] = x[i] · factor + shift, rounded and clamped to `lowest` and `highest`. If the factor is 0, all codes are
/// those of zeros, because a product with infinity would be NaN.
inline void round_codes(const float* x, int count, float factor, float shift, float lowest, float highest,
                        std::byte* codes) {
  const Vec by = broadcast(factor), to = broadcast(shift), low = broadcast(lowest), high = broadcast(highest);
  const auto code = [&](Vec x_i) {
    const Vec at = factor == 0 ? to : x_i * by + to;
    const Vec above = select(less(at, low), low, at);
    return select(less(high, above), high, above);
  };
  each_group(
      count, [&](std::int64_t i) { store_i8(code(load_f32(x + i)), codes + i); },
      [&](std::int64_t i, int rest) { store_i8_first(code(load_f32_first(x + i, rest)), codes + i, rest); });
}

inline void round_to_8_bits(const float* x, int count, std::byte* codes, std::byte* scale_at) {
  const Extremes of = extremes_of(x, count);
  const float largest = of.high < of.minus_low ? of.minus_low : of.high;
  round_codes(x, count, inverse_of(store_scale(largest / 127, scale_at)), 0, -127, 127, codes);
}

inline void round_to_4_bits(const float* x, int count, std::byte* codes, std::byte* scale_at, std::byte* zero_at) {
  const Extremes of = extremes_of(x, count);
  const float high = of.high < 0 ? 0 : of.high, minus_low = of.minus_low < 0 ? 0 : of.minus_low;
  const float factor = inverse_of(store_scale((high + minus_low) / 15, scale_at));
  float zero_lanes[kLanes];
  store_f32(round_even(broadcast(factor == 0 ? 0 : minus_low * 16 * factor)), zero_lanes);
  const float zero_point = zero_lanes[0] < 255 ? zero_lanes[0] : 255;
  *zero_at = static_cast<std::byte>(static_cast<int>(zero_point));
  std::byte code[kKvBlock] = {};
  round_codes(x, count, factor, zero_point / 16, 0, 15, code);
  const int half = count > kLanes ? kLanes : kLanes / 2;
  for (int i = 0; i < half; ++i) codes[i] = code[i] | code[half + i] << 4;
}

void round_kv(const float* x, std::int64_t n, KvType type, std::byte* y) {
  const KvRowLayout at = layout_of(type, n);
  for (std::int64_t i = 0; i < n; i += kKvBlock) {
    const auto count = static_cast<int>(smaller(kKvBlock, n - i));
    const std::int64_t block = i / kKvBlock;
    if (type == KvType::int8) {
      round_to_8_bits(x + i, count, y + i, y + at.scales + 2 * block);
    } else {
      round_to_4_bits(x + i, count, y + i / 2, y + at.scales + 2 * block, y + at.zeros + block);
    }
  }
}

}  // namespace
}  // namespace vitrine
