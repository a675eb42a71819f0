// Sixteen floats in one AVX-512 register; vec_scalar.h defines the operations.
#pragma once

// GCC 12 warns of the undefined operand inside its own intrinsics (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/sum_m256.h"

namespace vitrine {
namespace {

constexpr int kLanes = 16;

// Shapes of register tiles; they do not change a bit. 32 registers: 6 × 4 accumulators, and the operands.
constexpr int kPackedTokens = 6;
constexpr int kPackedRows = 4;
constexpr int kFewTokens = 6;  // tokens of a tile, for few tokens and row-major weights
/// Rows of w in such a tile. For two tokens, a matrix in memory is read row by row, because a single stream is fastest.
constexpr int few_rows(int tokens, bool near) { return tokens == 2 ? (near ? 8 : 1) : 4; }
constexpr PackAbove kPackAbove = {.f32 = 64, .half = kNeverPack, .transposed = 32};
constexpr std::int64_t kWhole = 1536;    // largest k that packed products compute in one chunk
constexpr int kOneTokenRows = 8;         // rows at once for a single token
constexpr bool kOneTokenBands = false;   // in memory, a single stream is fastest
constexpr int kFewTokensTransposed = 4;  // the same for transposed weights
constexpr int kMixRows = 6;              // rows of weighted_rows at once
/// Columns at once, in vectors, for this many rows: as wide as the registers allow, because whole rows are read
/// fastest.
constexpr int mix_vecs(int rows) { return rows == 1 ? 16 : rows <= 3 ? 8 : 4; }
constexpr int kScoreTokens = 8;                                       // queries at once, for keys of integers
constexpr int score_rows(int tokens) { return tokens <= 4 ? 4 : 2; }  // keys at once, for this many queries

struct Vec {
  __m512 v;
};
struct Mask {
  __mmask16 m;
};

inline __mmask16 lanes_below(int count) { return static_cast<__mmask16>((1u << count) - 1u); }

inline Vec broadcast(float value) { return {_mm512_set1_ps(value)}; }
inline Vec zero() { return {_mm512_setzero_ps()}; }

inline Vec load_f32(const void* p) { return {_mm512_loadu_ps(p)}; }
inline Vec load_f32_first(const void* p, int count) { return {_mm512_maskz_loadu_ps(lanes_below(count), p)}; }

inline Vec widen_bf16(__m256i x) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))}; }
inline Vec load_bf16(const void* p) { return widen_bf16(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
inline Vec load_bf16_first(const void* p, int count) {
  return widen_bf16(_mm256_maskz_loadu_epi16(lanes_below(count), p));
}
inline Vec load_f16(const void* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))}; }
inline Vec load_f16_first(const void* p, int count) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_below(count), p))};
}

/// 2^-8 of E4M3 elements: the same bits in the format of f16, whose exponent has one bit more. NaN, all ones, gets a
/// carry into that bit.
inline Vec widen_f8(__m128i x) {
  const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(x), 7);
  const __m256i half = _mm256_and_si256(moved, _mm256_set1_epi16(static_cast<short>(0xBFFF)));
  const __m256i carry = _mm256_add_epi16(half, _mm256_set1_epi16(0x80));
  return {_mm512_cvtph_ps(_mm256_or_si256(half, _mm256_and_si256(carry, _mm256_set1_epi16(0x4000))))};
}
inline Vec load_f8(const void* p) { return widen_f8(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
inline Vec load_f8_first(const void* p, int count) { return widen_f8(_mm_maskz_loadu_epi8(lanes_below(count), p)); }

/// Whether 64 elements are numbers.
inline bool are_f8_numbers(const void* p) {
  const __m512i without_sign = _mm512_or_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(static_cast<char>(0x80)));
  return _mm512_cmpeq_epi8_mask(without_sign, _mm512_set1_epi8(-1)) == 0;
}
/// The same as load_f8(p) and load_f8(p + 16) for elements that are numbers.
inline void load_f8_numbers(const void* p, Vec (&to)[2]) {
  const __m512i moved = _mm512_slli_epi16(_mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p))), 7);
  const __m512i half = _mm512_and_si512(moved, _mm512_set1_epi16(static_cast<short>(0xBFFF)));
  to[0] = {_mm512_cvtph_ps(_mm512_castsi512_si256(half))};
  to[1] = {_mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1))};
}

/// Sixteen floats that codes of 4 bits number.
struct FloatTable {
  __m512 v;
};
inline FloatTable load_table(const float* p) { return {_mm512_loadu_ps(p)}; }
inline FloatTable operator*(FloatTable table, float factor) { return {_mm512_mul_ps(table.v, _mm512_set1_ps(factor))}; }
/// The entries of the sixteen codes at p, the first of two in the high half of a byte.
inline Vec look_up(const FloatTable& table, const void* p) {
  const __m512i word_of_lane = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m512i shifts = _mm512_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24, 4, 0, 12, 8, 20, 16, 28, 24);
  const __m512i bytes = _mm512_castsi128_si512(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
  const __m512i words = _mm512_srlv_epi32(_mm512_permutexvar_epi32(word_of_lane, bytes), shifts);
  return {_mm512_permutexvar_ps(words, table.v)};  // which reads the lowest 4 bits of a lane
}

inline Vec load_i8(const void* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
}
inline Vec load_i8_first(const void* p, int count) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(lanes_below(count), p)))};
}

inline Vec broadcast_f16(const void* p) {
  std::int16_t bits = 0;
  __builtin_memcpy(&bits, p, sizeof bits);
  return {_mm512_cvtph_ps(_mm256_set1_epi16(bits))};
}

struct FourBitValues {
  __m512 of_code;
};
inline FourBitValues four_bit_values(Vec step, Vec offset) {
  const __m512 codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm512_fmadd_ps(codes, step.v, offset.v)};
}
inline Vec load_four_bits(const FourBitValues& values, const void* p, bool upper) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  // The permutation reads the lower four bits of an index.
  return {_mm512_permutexvar_ps(upper ? _mm512_srli_epi32(bytes, 4) : bytes, values.of_code)};
}
inline Vec load_four_bits_of_8(const FourBitValues& values, const void* p) {
  const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(p));
  const __m128i both = _mm_unpacklo_epi64(bytes, _mm_srli_epi16(bytes, 4));
  return {_mm512_permutexvar_ps(_mm512_cvtepu8_epi32(both), values.of_code)};
}

inline void store_f32(Vec a, void* p) { _mm512_storeu_ps(p, a.v); }
inline void store_f32_first(Vec a, void* p, int count) { _mm512_mask_storeu_ps(p, lanes_below(count), a.v); }

/// Rounds to nearest, ties to even; a NaN becomes quiet.
inline __m256i narrow_bf16(Vec a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(quiet, 16));
}
inline void store_bf16(Vec a, void* p) { _mm256_storeu_si256(static_cast<__m256i*>(p), narrow_bf16(a)); }
inline void store_bf16_first(Vec a, void* p, int count) {
  _mm256_mask_storeu_epi16(p, lanes_below(count), narrow_bf16(a));
}
inline __m128i narrow_i8(Vec a) { return _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a.v)); }
inline void store_i8(Vec a, void* p) { _mm_storeu_si128(static_cast<__m128i*>(p), narrow_i8(a)); }
inline void store_i8_first(Vec a, void* p, int count) { _mm_mask_storeu_epi8(p, lanes_below(count), narrow_i8(a)); }
inline __m256i narrow_f16(Vec a) { return _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline void store_f16(Vec a, void* p) { _mm256_storeu_si256(static_cast<__m256i*>(p), narrow_f16(a)); }
inline void store_f16_first(Vec a, void* p, int count) {
  _mm256_mask_storeu_epi16(p, lanes_below(count), narrow_f16(a));
}

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

inline Mask first_lanes(int count) { return {lanes_below(count)}; }
inline Mask less(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask is_nan(Vec a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
inline bool all(Mask mask) { return mask.m == 0xFFFF; }
inline Vec select(Mask mask, Vec yes, Vec no) { return {_mm512_mask_blend_ps(mask.m, no.v, yes.v)}; }

inline Vec abs(Vec a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
inline Vec with_sign_of(Vec magnitude, Vec sign) {
  const __m512 bit = _mm512_and_ps(_mm512_set1_ps(-0.0f), sign.v);
  return {_mm512_or_ps(abs(magnitude).v, bit)};
}
inline Vec round_even(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
inline Vec times_power_of_two(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }

struct Words {
  __m512i v;
};
inline Words load_words(const std::uint32_t* p) { return {_mm512_loadu_si512(p)}; }
/// 32 bfloat16 numbers as sixteen pairs, the number with the lower index in the lower half.
inline Words load_pairs(const void* p) {
  Words pairs = {_mm512_loadu_si512(p)};
  asm("" : "+v"(pairs.v));  // loaded once, although both halves are used: a load across two lines is slow
  return pairs;
}
inline Words load_pairs_first(const void* p, int count) {
  return {_mm512_maskz_loadu_epi16(static_cast<__mmask32>((std::uint32_t{1} << count) - 1), p)};
}
inline Vec even_of(Words pairs) { return {_mm512_castsi512_ps(_mm512_slli_epi32(pairs.v, 16))}; }
inline Vec odd_of(Words pairs) {
  return {_mm512_castsi512_ps(_mm512_and_si512(pairs.v, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))))};
}
inline Words broadcast_word(std::uint32_t value) { return {_mm512_set1_epi32(static_cast<int>(value))}; }
inline Words operator^(Words a, Words b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline void multiply_words(Words a, std::uint32_t factor, Words& upper, Words& lower) {
  const __m512i by = broadcast_word(factor).v;
  const __m512i even = _mm512_mul_epu32(a.v, by), odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), by);
  upper.v = _mm512_mask_blend_epi32(__mmask16{0xAAAA}, _mm512_srli_epi64(even, 32), odd);
  lower.v = _mm512_mask_blend_epi32(__mmask16{0xAAAA}, even, _mm512_slli_epi64(odd, 32));
}
inline Mask less(Words a, std::uint32_t limit) { return {_mm512_cmplt_epu32_mask(a.v, broadcast_word(limit).v)}; }

inline Vec swap_pairs(Vec a) { return {_mm512_permute_ps(a.v, 0xB1)}; }
inline Vec load_twice_first(const float* p, int count) {
  const __m512i lanes = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  return {_mm512_permutexvar_ps(lanes, load_f32_first(p, count).v)};
}
inline Vec subtract_add(Vec a, Vec b) {
  return {_mm512_mask_sub_ps(_mm512_add_ps(a.v, b.v), __mmask16{0x5555}, a.v, b.v)};
}

// The part of the sixteen lanes that one register holds: all of them.
constexpr int kPartLanes = 16;
using Part = Vec;
inline Part load_part(const float* p) { return load_f32(p); }
inline void store_part(Part a, float* p) { store_f32(a, p); }
inline Part zero_part() { return zero(); }

/// Lane j of a[i] becomes lane i of a[j].
inline void transpose(Vec (&a)[kLanes]) {
  __m512 t[kLanes];
  for (int i = 0; i < kLanes; i += 4) {  // squares of four within each quarter
    const __m512 ab_low = _mm512_unpacklo_ps(a[i].v, a[i + 1].v), ab_high = _mm512_unpackhi_ps(a[i].v, a[i + 1].v);
    const __m512 cd_low = _mm512_unpacklo_ps(a[i + 2].v, a[i + 3].v);
    const __m512 cd_high = _mm512_unpackhi_ps(a[i + 2].v, a[i + 3].v);
    t[i] = _mm512_shuffle_ps(ab_low, cd_low, 0x44);
    t[i + 1] = _mm512_shuffle_ps(ab_low, cd_low, 0xEE);
    t[i + 2] = _mm512_shuffle_ps(ab_high, cd_high, 0x44);
    t[i + 3] = _mm512_shuffle_ps(ab_high, cd_high, 0xEE);
  }
  for (int i = 0; i < 4; ++i) {  // quarter q of t[4 b + i] becomes quarter b of a[4 q + i]
    const __m512 low_01 = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x44);
    const __m512 high_01 = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xEE);
    const __m512 low_23 = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x44);
    const __m512 high_23 = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xEE);
    a[i].v = _mm512_shuffle_f32x4(low_01, low_23, 0x88);
    a[i + 4].v = _mm512_shuffle_f32x4(low_01, low_23, 0xDD);
    a[i + 8].v = _mm512_shuffle_f32x4(high_01, high_23, 0x88);
    a[i + 12].v = _mm512_shuffle_f32x4(high_01, high_23, 0xDD);
  }
}

/// (l, l+8)
inline __m256 sum_halves(Vec a) { return _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1)); }
inline float sum_lanes(Vec a) { return sum_m256(sum_halves(a)); }
/// (l, l+8), then (l, l+4) of four vectors: four lanes of each. A sum of two parts of each of two vectors takes one
/// shuffle and one blend, which leaves a part in place, rather than two shuffles.
inline __m512 sum_to_quarters(const Vec* v) {
  const auto halves = [](Vec a, Vec b) {  // a, a, b, b
    return _mm512_add_ps(_mm512_mask_blend_ps(__mmask16{0xFF00}, a.v, b.v), _mm512_shuffle_f32x4(a.v, b.v, 0x4E));
  };
  const __m512 ab = halves(v[0], v[1]), cd = halves(v[2], v[3]);
  const __m512i others = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
  return _mm512_add_ps(_mm512_mask_blend_ps(__mmask16{0xF0F0}, ab, cd), _mm512_permutex2var_ps(ab, others, cd));
}
/// The lane sums of four vectors.
inline void sum_lanes_of_4(const Vec* a, float* out) {
  const __m512 four = sum_to_quarters(a);  // of a[0], a[2], a[1], a[3]
  const __m512 two = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4E));
  const __m512 one = _mm512_add_ps(two, _mm512_movehdup_ps(two));
  const __m512i firsts = _mm512_setr_epi32(0, 8, 4, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, one)));
}
/// The lane sums of eight vectors.
inline void sum_lanes_of_8(const Vec* a, float* out) {
  const __m512 first = sum_to_quarters(a), second = sum_to_quarters(a + 4);
  const __m512 two =
      _mm512_add_ps(_mm512_mask_blend_ps(__mmask16{0xCCCC}, first, second), _mm512_shuffle_ps(first, second, 0x4E));
  const __m512 one = _mm512_add_ps(two, _mm512_movehdup_ps(two));
  const __m512i firsts = _mm512_setr_epi32(0, 8, 4, 12, 2, 10, 6, 14, 0, 0, 0, 0, 0, 0, 0, 0);
  _mm256_storeu_ps(out, _mm512_castps512_ps256(_mm512_permutexvar_ps(firsts, one)));
}

}  // namespace
}  // namespace vitrine
