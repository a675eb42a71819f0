// Sixteen floats in four NEON registers; vec_scalar.h defines the operations.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.h"

namespace vitrine {
namespace {

constexpr int kLanes = 16;

// Shapes of register tiles; they do not change a bit. 32 registers: 5 × 4 accumulators of four lanes, and the operands.
constexpr int kPackedTokens = 5;
constexpr int kPackedRows = 4;
constexpr int kFewTokens = 4;  // tokens of a tile, for few tokens and row-major weights
constexpr int few_rows(int tokens, bool) { return tokens == 1 ? 4 : tokens == 2 ? 2 : 1; }
constexpr PackAbove kPackAbove = {.f32 = 8, .half = 8, .transposed = 48};
constexpr std::int64_t kWhole = 1024;                           // largest k that packed products compute in one chunk
constexpr int kOneTokenRows = 4;                                // rows at once for a single token
constexpr bool kOneTokenBands = true;                           // in memory, a single token reads them in distant bands
constexpr int kFewTokensTransposed = 4;                         // the same for transposed weights
constexpr int kMixRows = 2;                                     // rows of weighted_rows at once
constexpr int mix_vecs(int rows) { return rows == 1 ? 4 : 2; }  // columns at once, in vectors, for this many rows
constexpr int kScoreTokens = 4;                                 // queries at once, for keys of integers
constexpr int score_rows(int tokens) { return tokens <= 2 ? 2 : 1; }  // keys at once, for this many queries

struct Vec {
  float32x4_t v[4];
};
struct Mask {
  uint32x4_t v[4];
};

/// The four registers of a vector: quarter(i) for i from 0 to 3.
template <class Quarter>
[[gnu::always_inline]] inline Vec vec_of(Quarter quarter) {
  return {{quarter(0), quarter(1), quarter(2), quarter(3)}};
}
template <class Quarter>
[[gnu::always_inline]] inline Mask mask_of(Quarter quarter) {
  return {{quarter(0), quarter(1), quarter(2), quarter(3)}};
}

/// The first `count` elements of sixteen, then zeros. NEON has no masked loads and stores.
template <class T>
struct Tail {
  T element[kLanes] = {};

  Tail() = default;
  Tail(const void* p, int count) { __builtin_memcpy(element, p, static_cast<std::size_t>(count) * sizeof(T)); }
  void store(void* p, int count) const { __builtin_memcpy(p, element, static_cast<std::size_t>(count) * sizeof(T)); }
};

inline Vec broadcast(float value) {
  return vec_of([=](int) { return vdupq_n_f32(value); });
}
inline Vec zero() { return broadcast(0.0f); }

inline Vec load_f32(const void* p) {
  return vec_of([=](int i) { return vld1q_f32(static_cast<const float*>(p) + 4 * i); });
}
inline Vec load_f32_first(const void* p, int count) { return load_f32(Tail<float>(p, count).element); }

/// Eight elements of 16 bits from element 8 · half on.
inline uint16x8_t load_halves_of(const void* p, int half) {
  return vreinterpretq_u16_u8(vld1q_u8(static_cast<const std::uint8_t*>(p) + 16 * half));
}
inline uint16x4_t half_of(uint16x8_t a, int half) { return half == 0 ? vget_low_u16(a) : vget_high_u16(a); }
inline float32x4_t widen_f16(uint16x4_t bits) { return vcvt_f32_f16(vreinterpret_f16_u16(bits)); }

inline Vec load_bf16(const void* p) {
  const uint16x8_t x[2] = {load_halves_of(p, 0), load_halves_of(p, 1)};
  return vec_of([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(half_of(x[i / 2], i % 2), 16)); });
}
inline Vec load_f16(const void* p) {
  const uint16x8_t x[2] = {load_halves_of(p, 0), load_halves_of(p, 1)};
  return vec_of([&](int i) { return widen_f16(half_of(x[i / 2], i % 2)); });
}
inline Vec load_bf16_first(const void* p, int count) { return load_bf16(Tail<std::uint16_t>(p, count).element); }
inline Vec load_f16_first(const void* p, int count) { return load_f16(Tail<std::uint16_t>(p, count).element); }

/// 2^-8 of E4M3 elements: the same bits in the format of f16, whose exponent has one bit more. NaN, all ones, gets a
/// carry into that bit.
inline Vec load_f8(const void* p) {
  const int8x16_t x = vld1q_s8(static_cast<const std::int8_t*>(p));
  const auto half_bits = [&](int8x8_t eight) {
    const uint16x8_t moved = vreinterpretq_u16_s16(vshlq_n_s16(vmovl_s8(eight), 7));
    const uint16x8_t half = vandq_u16(moved, vdupq_n_u16(0xBFFF)), carry = vaddq_u16(half, vdupq_n_u16(0x80));
    return vorrq_u16(half, vandq_u16(carry, vdupq_n_u16(0x4000)));
  };
  const uint16x8_t bits[2] = {half_bits(vget_low_s8(x)), half_bits(vget_high_s8(x))};
  return vec_of([&](int i) { return widen_f16(half_of(bits[i / 2], i % 2)); });
}
inline Vec load_f8_first(const void* p, int count) { return load_f8(Tail<std::uint8_t>(p, count).element); }
/// Whether 64 elements are numbers.
inline bool are_f8_numbers(const void* p) {
  const auto* x = static_cast<const std::uint8_t*>(p);
  const uint8x16_t sign = vdupq_n_u8(0x80);
  const auto without_sign = [&](int i) { return vorrq_u8(vld1q_u8(x + 16 * i), sign); };
  const uint8x16_t largest =
      vmaxq_u8(vmaxq_u8(without_sign(0), without_sign(1)), vmaxq_u8(without_sign(2), without_sign(3)));
  return vmaxvq_u8(largest) != 0xFF;
}
/// The same as load_f8(p) and load_f8(p + 16) for elements that are numbers.
inline void load_f8_numbers(const void* p, Vec (&to)[2]) {
  to[0] = load_f8(p), to[1] = load_f8(static_cast<const std::uint8_t*>(p) + kLanes);
}

/// Sixteen floats that codes of 4 bits number, as bytes.
struct FloatTable {
  uint8x16x4_t bytes;
};
inline FloatTable table_of_floats(const Vec& entries) {
  FloatTable table;
  for (int i = 0; i < 4; ++i) table.bytes.val[i] = vreinterpretq_u8_f32(entries.v[i]);
  return table;
}
inline FloatTable load_table(const float* p) { return table_of_floats(load_f32(p)); }
inline FloatTable operator*(const FloatTable& table, float factor) {
  return table_of_floats(vec_of([&](int i) { return vmulq_n_f32(vreinterpretq_f32_u8(table.bytes.val[i]), factor); }));
}
/// The entries of the sixteen codes at p, the first of two in the high half of a byte.
inline Vec look_up(const FloatTable& table, const void* p) {
  const uint8x8_t pairs = vld1_u8(static_cast<const std::uint8_t*>(p));
  const uint8x8_t first = vshr_n_u8(pairs, 4), second = vand_u8(pairs, vdup_n_u8(15));
  const uint8x16_t codes = vcombine_u8(vzip1_u8(first, second), vzip2_u8(first, second));
  const uint8x16_t own = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};  // the code of each byte
  const uint8x16_t byte = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
  return vec_of([&](int i) {
    const uint8x16_t code = vqtbl1q_u8(codes, vaddq_u8(own, vdupq_n_u8(static_cast<std::uint8_t>(4 * i))));
    return vreinterpretq_f32_u8(vqtbl4q_u8(table.bytes, vaddq_u8(vshlq_n_u8(code, 2), byte)));
  });
}

/// Sixteen bytes as floats.
inline Vec floats_of_bytes(int8x16_t x) {
  const int16x8_t halves[2] = {vmovl_s8(vget_low_s8(x)), vmovl_s8(vget_high_s8(x))};
  return vec_of([&](int i) {
    const int16x8_t half = halves[i / 2];
    return vcvtq_f32_s32(vmovl_s16(i % 2 == 0 ? vget_low_s16(half) : vget_high_s16(half)));
  });
}
inline Vec load_i8(const void* p) { return floats_of_bytes(vld1q_s8(static_cast<const std::int8_t*>(p))); }
inline Vec load_i8_first(const void* p, int count) { return load_i8(Tail<std::int8_t>(p, count).element); }

inline Vec broadcast_f16(const void* p) {
  std::uint16_t bits = 0;
  __builtin_memcpy(&bits, p, sizeof bits);
  const float32x4_t value = widen_f16(vdup_n_u16(bits));
  return vec_of([=](int) { return value; });
}

struct FourBitValues {
  float32x4_t step, offset;
};
inline FourBitValues four_bit_values(Vec step, Vec offset) { return {step.v[0], offset.v[0]}; }
/// The values of the codes in sixteen bytes.
inline Vec values_of_codes(const FourBitValues& values, uint8x16_t codes) {
  const Vec floats = floats_of_bytes(vreinterpretq_s8_u8(codes));
  return vec_of([&](int i) { return vfmaq_f32(values.offset, floats.v[i], values.step); });
}
inline Vec load_four_bits(const FourBitValues& values, const void* p, bool upper) {
  const uint8x16_t bytes = vld1q_u8(static_cast<const std::uint8_t*>(p));
  return values_of_codes(values, upper ? vshrq_n_u8(bytes, 4) : vandq_u8(bytes, vdupq_n_u8(15)));
}
inline Vec load_four_bits_of_8(const FourBitValues& values, const void* p) {
  const uint8x8_t bytes = vld1_u8(static_cast<const std::uint8_t*>(p));
  return values_of_codes(values, vcombine_u8(vand_u8(bytes, vdup_n_u8(15)), vshr_n_u8(bytes, 4)));
}

inline void store_f32(Vec a, void* p) {
  for (int i = 0; i < 4; ++i) vst1q_f32(static_cast<float*>(p) + 4 * i, a.v[i]);
}
inline void store_f32_first(Vec a, void* p, int count) {
  Tail<float> out;
  store_f32(a, out.element);
  out.store(p, count);
}
/// Four bfloat16 numbers, rounded to nearest, ties to even; a NaN becomes quiet.
inline uint16x4_t bf16_bits(float32x4_t a) {
  const uint32x4_t bits = vreinterpretq_u32_f32(a);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7FFF)));
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
  return vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet), 16);
}
inline uint16x4_t f16_bits(float32x4_t a) { return vreinterpret_u16_f16(vcvt_f16_f32(a)); }
inline void store_halves(uint16x4_t a, void* p, int quarter) {
  vst1_u8(static_cast<std::uint8_t*>(p) + 8 * quarter, vreinterpret_u8_u16(a));
}
inline void store_bf16(Vec a, void* p) {
  for (int i = 0; i < 4; ++i) store_halves(bf16_bits(a.v[i]), p, i);
}
inline void store_f16(Vec a, void* p) {
  for (int i = 0; i < 4; ++i) store_halves(f16_bits(a.v[i]), p, i);
}
inline void store_i8(Vec a, void* p) {
  const auto words = [&](int i) { return vqmovn_s32(vcvtnq_s32_f32(a.v[i])); };
  const int8x8_t low = vqmovn_s16(vcombine_s16(words(0), words(1))),
                 high = vqmovn_s16(vcombine_s16(words(2), words(3)));
  vst1q_s8(static_cast<std::int8_t*>(p), vcombine_s8(low, high));
}
inline void store_i8_first(Vec a, void* p, int count) {
  Tail<std::int8_t> out;
  store_i8(a, out.element);
  out.store(p, count);
}
inline void store_bf16_first(Vec a, void* p, int count) {
  Tail<std::uint16_t> out;
  store_bf16(a, out.element);
  out.store(p, count);
}
inline void store_f16_first(Vec a, void* p, int count) {
  Tail<std::uint16_t> out;
  store_f16(a, out.element);
  out.store(p, count);
}

inline Vec operator+(Vec a, Vec b) {
  return vec_of([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
inline Vec operator-(Vec a, Vec b) {
  return vec_of([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
inline Vec operator*(Vec a, Vec b) {
  return vec_of([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
inline Vec operator/(Vec a, Vec b) {
  return vec_of([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
}
inline Vec sqrt(Vec a) {
  return vec_of([&](int i) { return vsqrtq_f32(a.v[i]); });
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return vec_of([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}

inline Mask first_lanes(int count) {
  const int32x4_t lanes = {0, 1, 2, 3};
  return mask_of([&](int i) { return vcgtq_s32(vdupq_n_s32(count - 4 * i), lanes); });
}
inline Mask less(Vec a, Vec b) {
  return mask_of([&](int i) { return vcltq_f32(a.v[i], b.v[i]); });
}
inline Mask is_nan(Vec a) {
  return mask_of([&](int i) { return vmvnq_u32(vceqq_f32(a.v[i], a.v[i])); });
}
inline bool all(Mask mask) {
  const uint32x4_t both = vandq_u32(vandq_u32(mask.v[0], mask.v[1]), vandq_u32(mask.v[2], mask.v[3]));
  return vminvq_u32(both) != 0;
}
inline Vec select(Mask mask, Vec yes, Vec no) {
  return vec_of([&](int i) { return vbslq_f32(mask.v[i], yes.v[i], no.v[i]); });
}

inline Vec abs(Vec a) {
  return vec_of([&](int i) { return vabsq_f32(a.v[i]); });
}
inline Vec with_sign_of(Vec magnitude, Vec sign) {
  return vec_of([&](int i) { return vbslq_f32(vdupq_n_u32(0x80000000U), sign.v[i], magnitude.v[i]); });
}
inline Vec round_even(Vec a) {
  return vec_of([&](int i) { return vrndnq_f32(a.v[i]); });
}
inline Vec times_power_of_two(Vec a, Vec n) {
  return vec_of([&](int i) {
    const int32x4_t exponent = vcvtnq_s32_f32(n.v[i]), half = vshrq_n_s32(exponent, 1), bias = vdupq_n_s32(127);
    const auto power = [&](int32x4_t e) { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(e, bias), 23)); };
    return vmulq_f32(vmulq_f32(a.v[i], power(half)), power(vsubq_s32(exponent, half)));
  });
}

struct Words {
  uint32x4_t v[4];
};
template <class Quarter>
[[gnu::always_inline]] inline Words words_of(Quarter quarter) {
  return {{quarter(0), quarter(1), quarter(2), quarter(3)}};
}
inline Words load_words(const std::uint32_t* p) {
  return words_of([=](int i) { return vld1q_u32(p + 4 * i); });
}
/// 32 bfloat16 numbers as sixteen pairs, the number with the lower index in the lower half.
inline Words load_pairs(const void* p) {
  return words_of([=](int i) { return vreinterpretq_u32_u8(vld1q_u8(static_cast<const std::uint8_t*>(p) + 16 * i)); });
}
inline Words load_pairs_first(const void* p, int count) {
  std::uint16_t element[2 * kLanes] = {};
  __builtin_memcpy(element, p, static_cast<std::size_t>(count) * 2);
  return load_pairs(element);
}
inline Vec even_of(Words pairs) {
  return vec_of([&](int i) { return vreinterpretq_f32_u32(vshlq_n_u32(pairs.v[i], 16)); });
}
inline Vec odd_of(Words pairs) {
  return vec_of([&](int i) { return vreinterpretq_f32_u32(vandq_u32(pairs.v[i], vdupq_n_u32(0xFFFF0000U))); });
}
inline Words broadcast_word(std::uint32_t value) {
  return words_of([=](int) { return vdupq_n_u32(value); });
}
inline Words operator^(Words a, Words b) {
  return words_of([&](int i) { return veorq_u32(a.v[i], b.v[i]); });
}
inline void multiply_words(Words a, std::uint32_t factor, Words& upper, Words& lower) {
  for (int i = 0; i < 4; ++i) {
    const uint32x4_t low = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(a.v[i]), factor));
    const uint32x4_t high = vreinterpretq_u32_u64(vmull_high_n_u32(a.v[i], factor));
    lower.v[i] = vuzp1q_u32(low, high), upper.v[i] = vuzp2q_u32(low, high);
  }
}
inline Mask less(Words a, std::uint32_t limit) {
  return mask_of([&](int i) { return vcltq_u32(a.v[i], vdupq_n_u32(limit)); });
}

inline Vec swap_pairs(Vec a) {
  return vec_of([&](int i) { return vrev64q_f32(a.v[i]); });
}
inline Vec load_twice_first(const float* p, int count) {
  const Vec x = load_f32_first(p, count);
  return {
      {vzip1q_f32(x.v[0], x.v[0]), vzip2q_f32(x.v[0], x.v[0]), vzip1q_f32(x.v[1], x.v[1]), vzip2q_f32(x.v[1], x.v[1])}};
}
inline Vec subtract_add(Vec a, Vec b) {
  const uint32x4_t even_signs = {0x80000000U, 0, 0x80000000U, 0};
  return vec_of([&](int i) {
    return vaddq_f32(a.v[i], vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(b.v[i]), even_signs)));
  });
}

// The part of the sixteen lanes that one register holds: a quarter of them.
constexpr int kPartLanes = 4;
struct Part {
  float32x4_t v;
};
inline Part load_part(const float* p) { return {vld1q_f32(p)}; }
inline void store_part(Part a, float* p) { vst1q_f32(p, a.v); }
inline Part zero_part() { return {vdupq_n_f32(0.0f)}; }
inline Part fma(Part a, Part b, Part c) { return {vfmaq_f32(c.v, a.v, b.v)}; }

/// Lanes (0, 1) or (2, 3) of a, then of b.
inline float32x4_t first_pairs(float32x4_t a, float32x4_t b) {
  return vreinterpretq_f32_f64(vtrn1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}
inline float32x4_t second_pairs(float32x4_t a, float32x4_t b) {
  return vreinterpretq_f32_f64(vtrn2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}

/// Lane j of a[i] becomes lane i of a[j].
inline void transpose(Vec (&a)[kLanes]) {
  Vec t[kLanes];
  for (int row = 0; row < 4; ++row) {  // squares of four
    for (int column = 0; column < 4; ++column) {
      const Vec* const from = a + 4 * row;
      const float32x4_t ab = vtrn1q_f32(from[0].v[column], from[1].v[column]);
      const float32x4_t ab_odd = vtrn2q_f32(from[0].v[column], from[1].v[column]);
      const float32x4_t cd = vtrn1q_f32(from[2].v[column], from[3].v[column]);
      const float32x4_t cd_odd = vtrn2q_f32(from[2].v[column], from[3].v[column]);
      Vec* const to = t + 4 * column;
      to[0].v[row] = first_pairs(ab, cd), to[1].v[row] = first_pairs(ab_odd, cd_odd);
      to[2].v[row] = second_pairs(ab, cd), to[3].v[row] = second_pairs(ab_odd, cd_odd);
    }
  }
  for (int i = 0; i < kLanes; ++i) a[i] = t[i];
}

/// (l, l+8), then (l, l+4)
inline float32x4_t sum_to_quarter(const Vec& a) {
  return vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
}
inline float sum_lanes(Vec a) {
  const float32x4_t four = sum_to_quarter(a);
  return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
}
inline void sum_lanes_of_4(const Vec* a, float* out) {
  const auto pairs = [](const Vec& first, const Vec& second) {  // (l, l+2) of two vectors
    const float32x4_t x = sum_to_quarter(first), y = sum_to_quarter(second);
    return vaddq_f32(first_pairs(x, y), second_pairs(x, y));
  };
  vst1q_f32(out, vpaddq_f32(pairs(a[0], a[1]), pairs(a[2], a[3])));
}
inline void sum_lanes_of_8(const Vec* a, float* out) {
  sum_lanes_of_4(a, out);
  sum_lanes_of_4(a + 4, out + 4);
}

}  // namespace
}  // namespace vitrine
