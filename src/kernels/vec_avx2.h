// Sixteen floats in two AVX2 registers; vec_scalar.h defines the operations.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/sum_m256.h"

namespace vitrine {
namespace {

constexpr int kLanes = 16;

// Shapes of register tiles; they do not change a bit. 16 registers: 4 × 3 accumulators of eight lanes, and the
// operands.
constexpr int kPackedTokens = 4;
constexpr int kPackedRows = 3;
constexpr int kFewTokens = 4;  // tokens of a tile, for few tokens and row-major weights
constexpr int few_rows(int tokens, bool) { return tokens <= 3 ? 2 : 1; }
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
  __m256 lo, hi;
};
struct Mask {
  __m256 lo, hi;
};

/// The elements of a tail. AVX2 has no masked load of 16-bit elements.
struct Halves {
  alignas(32) std::uint16_t element[kLanes];
};

inline Vec broadcast(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
inline Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }

/// All bits set in lanes below count.
inline __m256i lanes_below(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline Vec load_f32(const void* p) {
  const auto* x = static_cast<const float*>(p);
  return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
}
inline Vec load_f32_first(const void* p, int count) {
  const auto* x = static_cast<const float*>(p);
  return {_mm256_maskload_ps(x, lanes_below(count)), _mm256_maskload_ps(x + 8, lanes_below(count - 8))};
}
inline Vec load_bf16(const void* p) {
  const auto* x = static_cast<const __m128i*>(p);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(x)), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(x + 1)), 16))};
}
inline Vec load_f16(const void* p) {
  const auto* x = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(x)), _mm256_cvtph_ps(_mm_loadu_si128(x + 1))};
}
inline Halves halves_first(const void* p, int count) {
  Halves out = {};
  __builtin_memcpy(out.element, p, static_cast<std::size_t>(count) * 2);
  return out;
}
inline Vec load_bf16_first(const void* p, int count) { return load_bf16(halves_first(p, count).element); }
inline Vec load_f16_first(const void* p, int count) { return load_f16(halves_first(p, count).element); }

/// 2^-8 of E4M3 elements: the same bits in the format of f16, whose exponent has one bit more. NaN, all ones, gets a
/// carry into that bit.
inline Vec load_f8(const void* p) {
  const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p))), 7);
  const __m256i half = _mm256_and_si256(moved, _mm256_set1_epi16(static_cast<short>(0xBFFF)));
  const __m256i carry = _mm256_add_epi16(half, _mm256_set1_epi16(0x80));
  const __m256i all = _mm256_or_si256(half, _mm256_and_si256(carry, _mm256_set1_epi16(0x4000)));
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(all)), _mm256_cvtph_ps(_mm256_extracti128_si256(all, 1))};
}
inline Vec load_f8_first(const void* p, int count) {
  std::uint8_t element[kLanes] = {};
  __builtin_memcpy(element, p, static_cast<std::size_t>(count));
  return load_f8(element);
}

/// Whether 64 elements are numbers.
inline bool are_f8_numbers(const void* p) {
  const auto* x = static_cast<const __m256i*>(p);
  const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80)), ones = _mm256_set1_epi8(-1);
  const auto nan = [&](const __m256i* at) {
    return _mm256_cmpeq_epi8(_mm256_or_si256(_mm256_loadu_si256(at), sign), ones);
  };
  return _mm256_movemask_epi8(_mm256_or_si256(nan(x), nan(x + 1))) == 0;
}
/// The same as load_f8(p) and load_f8(p + 16) for elements that are numbers.
inline void load_f8_numbers(const void* p, Vec (&to)[2]) {
  const auto* x = static_cast<const __m128i*>(p);
  const auto widened = [&](const __m128i* at) -> Vec {
    const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(at)), 7);
    const __m256i half = _mm256_and_si256(moved, _mm256_set1_epi16(static_cast<short>(0xBFFF)));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
  };
  to[0] = widened(x), to[1] = widened(x + 1);
}

/// Sixteen floats that codes of 4 bits number.
struct FloatTable {
  __m256 low, high;
};
inline FloatTable load_table(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline FloatTable operator*(FloatTable table, float factor) {
  const __m256 all = _mm256_set1_ps(factor);
  return {_mm256_mul_ps(table.low, all), _mm256_mul_ps(table.high, all)};
}
/// The entries of the sixteen codes at p, the first of two in the high half of a byte.
inline Vec look_up(const FloatTable& table, const void* p) {
  const auto entries = [&](std::int32_t eight) {
    const __m256i shifts = _mm256_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24);
    const __m256i i = _mm256_srlv_epi32(_mm256_set1_epi32(eight), shifts);  // the permutation reads the lowest 3 bits
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.low, i), _mm256_permutevar8x32_ps(table.high, i),
                            _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));  // bit 3 as the sign
  };
  std::int32_t words[2];
  std::memcpy(words, p, sizeof words);
  return {entries(words[0]), entries(words[1])};
}

inline Vec load_i8(const void* p) {
  const __m128i x = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(x, x)))};
}
inline Vec load_i8_first(const void* p, int count) {
  std::int8_t element[kLanes] = {};
  __builtin_memcpy(element, p, static_cast<std::size_t>(count));
  return load_i8(element);
}

inline Vec broadcast_f16(const void* p) {
  std::uint16_t bits = 0;
  __builtin_memcpy(&bits, p, sizeof bits);
  return broadcast(_cvtsh_ss(bits));
}

struct FourBitValues {
  __m256 step, offset;
};
inline FourBitValues four_bit_values(Vec step, Vec offset) { return {step.lo, offset.lo}; }
/// The values of the codes in sixteen bytes.
inline Vec values_of_codes(const FourBitValues& values, __m128i codes) {
  const __m256 lo = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
  const __m256 hi = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(codes, codes)));
  return {_mm256_fmadd_ps(lo, values.step, values.offset), _mm256_fmadd_ps(hi, values.step, values.offset)};
}
inline Vec load_four_bits(const FourBitValues& values, const void* p, bool upper) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return values_of_codes(values, _mm_and_si128(upper ? _mm_srli_epi16(bytes, 4) : bytes, _mm_set1_epi8(15)));
}
inline Vec load_four_bits_of_8(const FourBitValues& values, const void* p) {
  const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(p));
  const __m128i both = _mm_unpacklo_epi64(bytes, _mm_srli_epi16(bytes, 4));
  return values_of_codes(values, _mm_and_si128(both, _mm_set1_epi8(15)));
}

inline void store_f32(Vec a, void* p) {
  auto* y = static_cast<float*>(p);
  _mm256_storeu_ps(y, a.lo);
  _mm256_storeu_ps(y + 8, a.hi);
}
inline void store_f32_first(Vec a, void* p, int count) {
  auto* y = static_cast<float*>(p);
  _mm256_maskstore_ps(y, lanes_below(count), a.lo);
  _mm256_maskstore_ps(y + 8, lanes_below(count - 8), a.hi);
}
/// The bits of a bfloat16 in each 32-bit lane, rounded to nearest, ties to even; a NaN becomes quiet.
inline __m256i bf16_bits(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan)), 16);
}
inline void store_bf16(Vec a, void* p) {
  const __m256i packed = _mm256_packus_epi32(bf16_bits(a.lo), bf16_bits(a.hi));  // packs within 128-bit halves
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xD8));
}
inline void store_f16(Vec a, void* p) {
  auto* y = static_cast<__m128i*>(p);
  _mm_storeu_si128(y, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(y + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
inline void store_i8(Vec a, void* p) {
  const __m256i words =
      _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi));  // within 128-bit halves
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xD8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
  _mm_storeu_si128(static_cast<__m128i*>(p), bytes);
}
inline void store_i8_first(Vec a, void* p, int count) {
  std::int8_t element[kLanes];
  store_i8(a, element);
  __builtin_memcpy(p, element, static_cast<std::size_t>(count));
}
inline void store_bf16_first(Vec a, void* p, int count) {
  Halves out;
  store_bf16(a, out.element);
  __builtin_memcpy(p, out.element, static_cast<std::size_t>(count) * 2);
}
inline void store_f16_first(Vec a, void* p, int count) {
  Halves out;
  store_f16(a, out.element);
  __builtin_memcpy(p, out.element, static_cast<std::size_t>(count) * 2);
}

inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }

inline Mask first_lanes(int count) {
  return {_mm256_castsi256_ps(lanes_below(count)), _mm256_castsi256_ps(lanes_below(count - 8))};
}
inline Mask less(Vec a, Vec b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
inline Mask is_nan(Vec a) { return {_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q), _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q)}; }
inline bool all(Mask mask) { return _mm256_movemask_ps(_mm256_and_ps(mask.lo, mask.hi)) == 0xFF; }
inline Vec select(Mask mask, Vec yes, Vec no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, mask.lo), _mm256_blendv_ps(no.hi, yes.hi, mask.hi)};
}

inline Vec abs(Vec a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
inline Vec with_sign_of(Vec magnitude, Vec sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  const Vec m = abs(magnitude);
  return {_mm256_or_ps(m.lo, _mm256_and_ps(bit, sign.lo)), _mm256_or_ps(m.hi, _mm256_and_ps(bit, sign.hi))};
}
inline Vec round_even(Vec a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
}
inline __m256 times_power_of_two(__m256 a, __m256 n) {
  const __m256i exponent = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(exponent, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(exponent, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}
inline Vec times_power_of_two(Vec a, Vec n) { return {times_power_of_two(a.lo, n.lo), times_power_of_two(a.hi, n.hi)}; }

struct Words {
  __m256i lo, hi;
};
inline Words load_words(const std::uint32_t* p) {
  const auto* x = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(x), _mm256_loadu_si256(x + 1)};
}
/// 32 bfloat16 numbers as sixteen pairs, the number with the lower index in the lower half.
inline Words load_pairs(const void* p) {
  const auto* x = static_cast<const __m256i*>(p);
  Words pairs = {_mm256_loadu_si256(x), _mm256_loadu_si256(x + 1)};
  asm("" : "+x"(pairs.lo), "+x"(pairs.hi));  // loaded once, although both halves are used
  return pairs;
}
inline Words load_pairs_first(const void* p, int count) {
  std::uint16_t element[2 * kLanes] = {};
  __builtin_memcpy(element, p, static_cast<std::size_t>(count) * 2);
  return load_pairs(element);
}
inline Vec even_of(Words pairs) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs.lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(pairs.hi, 16))};
}
inline Vec odd_of(Words pairs) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000u));
  return {_mm256_castsi256_ps(_mm256_and_si256(pairs.lo, upper)),
          _mm256_castsi256_ps(_mm256_and_si256(pairs.hi, upper))};
}
inline Words broadcast_word(std::uint32_t value) {
  const __m256i v = _mm256_set1_epi32(static_cast<int>(value));
  return {v, v};
}
inline Words operator^(Words a, Words b) { return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)}; }
inline void multiply_words_8(__m256i a, __m256i by, __m256i& upper, __m256i& lower) {
  const __m256i even = _mm256_mul_epu32(a, by), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), by);
  upper = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  lower = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}
inline void multiply_words(Words a, std::uint32_t factor, Words& upper, Words& lower) {
  const __m256i by = broadcast_word(factor).lo;
  multiply_words_8(a.lo, by, upper.lo, lower.lo);
  multiply_words_8(a.hi, by, upper.hi, lower.hi);
}
/// AVX2 has only a signed comparison, so both sides are shifted by 2^31.
inline Mask less(Words a, std::uint32_t limit) {
  const Words top = broadcast_word(0x80000000u), moved = a ^ top, bound = broadcast_word(limit) ^ top;
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(bound.lo, moved.lo)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(bound.hi, moved.hi))};
}

inline Vec swap_pairs(Vec a) { return {_mm256_permute_ps(a.lo, 0xB1), _mm256_permute_ps(a.hi, 0xB1)}; }
inline Vec load_twice_first(const float* p, int count) {
  const __m256 x = _mm256_maskload_ps(p, lanes_below(count));
  return {_mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
          _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7))};
}
inline Vec subtract_add(Vec a, Vec b) { return {_mm256_addsub_ps(a.lo, b.lo), _mm256_addsub_ps(a.hi, b.hi)}; }

// The part of the sixteen lanes that one register holds: half of them.
constexpr int kPartLanes = 8;
struct Part {
  __m256 v;
};
inline Part load_part(const float* p) { return {_mm256_loadu_ps(p)}; }
inline void store_part(Part a, float* p) { _mm256_storeu_ps(p, a.v); }
inline Part zero_part() { return {_mm256_setzero_ps()}; }
inline Part fma(Part a, Part b, Part c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }

/// Eight vectors of eight: lane j of a[i] becomes lane i of a[j].
inline void transpose_8(__m256 (&a)[8]) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 4) {  // squares of four within each half
    const __m256 ab_low = _mm256_unpacklo_ps(a[i], a[i + 1]), ab_high = _mm256_unpackhi_ps(a[i], a[i + 1]);
    const __m256 cd_low = _mm256_unpacklo_ps(a[i + 2], a[i + 3]), cd_high = _mm256_unpackhi_ps(a[i + 2], a[i + 3]);
    t[i] = _mm256_shuffle_ps(ab_low, cd_low, 0x44);
    t[i + 1] = _mm256_shuffle_ps(ab_low, cd_low, 0xEE);
    t[i + 2] = _mm256_shuffle_ps(ab_high, cd_high, 0x44);
    t[i + 3] = _mm256_shuffle_ps(ab_high, cd_high, 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
    a[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
  }
}
/// Lane j of a[i] becomes lane i of a[j].
inline void transpose(Vec (&a)[kLanes]) {
  __m256 square[4][8];  // upper left, upper right, lower left, lower right
  for (int i = 0; i < 8; ++i) {
    square[0][i] = a[i].lo;
    square[1][i] = a[i].hi;
    square[2][i] = a[i + 8].lo;
    square[3][i] = a[i + 8].hi;
  }
  for (auto& each : square) transpose_8(each);
  for (int i = 0; i < 8; ++i) {
    a[i] = {square[0][i], square[2][i]};
    a[i + 8] = {square[1][i], square[3][i]};
  }
}

/// (l, l+8)
inline __m256 sum_halves(Vec a) { return _mm256_add_ps(a.lo, a.hi); }
inline float sum_lanes(Vec a) { return sum_m256(sum_halves(a)); }
/// The additions of sum_m256 for four vectors at once, in half the instructions.
inline __m128 sum_4_m256(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 ac = _mm256_add_ps(_mm256_permute2f128_ps(a, c, 0x20), _mm256_permute2f128_ps(a, c, 0x31));
  const __m256 bd = _mm256_add_ps(_mm256_permute2f128_ps(b, d, 0x20), _mm256_permute2f128_ps(b, d, 0x31));
  // Lanes now: ac = a0 a1 a2 a3 | c0 c1 c2 c3, bd = b0 b1 b2 b3 | d0 d1 d2 d3.
  const __m256 two = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xEE));
  const __m256 one = _mm256_add_ps(two, _mm256_movehdup_ps(two));  // a . b . | c . d .
  return _mm_shuffle_ps(_mm256_castps256_ps128(one), _mm256_extractf128_ps(one, 1), 0x88);
}
inline void sum_lanes_of_4(const Vec* a, float* out) {
  _mm_storeu_ps(out, sum_4_m256(sum_halves(a[0]), sum_halves(a[1]), sum_halves(a[2]), sum_halves(a[3])));
}
inline void sum_lanes_of_8(const Vec* a, float* out) {
  sum_lanes_of_4(a, out);
  sum_lanes_of_4(a + 4, out + 4);
}

}  // namespace
}  // namespace vitrine
