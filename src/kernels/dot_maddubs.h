// The sum of products with AVX2. VPMADDUBSW adds two products in 16 bits and saturates, so as many of its results are
// added in 16 bits as cannot exceed 32,767. With |x| ≤ 127 they are 2 · 15 · 127 for codes of 4 bits (8 of them fit),
// 2 · 31 · 127 for 5 bits (4), 2 · 63 · 127 for 6 bits (2). Codes of 8 bits do not fit; their offset of 128 makes them
// signed numbers w, and the product is |w| · (sign of w) x, of which two are at most 2 · 128 · 127.
#pragma once

#include "kernels/blocks_m256.h"
#include "kernels/kernels.h"

namespace vitrine {
namespace {

/// Sums that fit in 16 bits.
constexpr int sums_in_16_bits(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; }

/// sum + Σ_k code[k] · x[k] · factor over kCount words of codes; `factors` has the factor in all its 16-bit elements.
template <int kBits, int kCount>
[[gnu::always_inline]] inline __m256i add_dot(const Words* codes, const std::int8_t* x, __m256i factors, __m256i sum) {
  constexpr int kFit = sums_in_16_bits(kBits), kSums = kFit < kCount ? kFit : kCount;
  unrolled<kCount / kSums>([&](auto group) __attribute__((always_inline)) {
    __m256i few = _mm256_setzero_si256();
    unrolled<kSums>([&](auto j) __attribute__((always_inline)) {
      constexpr int i = group * kSums + j;
      const __m256i x_i = broadcast_codes(x + 4 * i);
      __m256i pairs;
      if constexpr (kBits == 8) {
        const __m256i w = (codes[i] ^ 0x80808080U).v;
        pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x_i, w));
      } else {
        pairs = _mm256_maddubs_epi16(codes[i].v, x_i);
      }
      few = j == 0 ? pairs : _mm256_add_epi16(few, pairs);
    });
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(few, factors));
  });
  return sum;
}

template <int kBits, int kOffset, int kCount>
[[gnu::always_inline]] inline Words dot(const Words* codes, const std::int8_t* x, std::int32_t minus_sum) {
  static_assert(kBits <= 6 || kOffset == 128);
  const __m256i sum = kBits == 8 ? _mm256_setzero_si256() : times_offset<kOffset>(minus_sum);
  return {add_dot<kBits, kCount>(codes, x, _mm256_set1_epi16(1), sum)};
}

/// Two integers of 8 bits per row, one for each half of a part, in 16 bits each.
struct IntegerPair {
  __m256i v;
};
using Pair = IntegerPair;

/// Bytes `first` and first + 1, as signed integers.
[[gnu::always_inline]] inline Pair byte_pair(const Words& word, int first) {
  const __m256i upper_bytes = pick_bytes(word.v, 0x01800080U + 0x01000100U * static_cast<unsigned>(first));
  return {_mm256_srai_epi16(upper_bytes, 8)};
}

/// The integers times those of x, which every row shares.
[[gnu::always_inline]] inline __m256i times_pair(const Pair& w, const std::int16_t (&x)[2]) {
  int both;
  __builtin_memcpy(&both, x, sizeof both);
  return _mm256_madd_epi16(w.v, _mm256_set1_epi32(both));
}

/// Σ_k (code[k] − kOffset) · x[k] · sub_scale[k / 16]: the sub-scale is the factor by which VPMADDWD multiplies the
/// sums of 16 bits.
template <int kBits, int kOffset>
[[gnu::always_inline]] inline Floats dot_halves(const Words* codes, const RoundedPart& x, const Pair& sub_scale) {
  __m256i sum = _mm256_setzero_si256();
  if constexpr (kOffset > 0) {
    sum = _mm256_slli_epi32(times_pair(sub_scale, x.minus_half_sum), __builtin_ctz(unsigned{kOffset}));
  }
  sum = add_dot<kBits, 4>(codes, x.q, pick_bytes(sub_scale.v, 0x01000100), sum);
  sum = add_dot<kBits, 4>(codes + 4, x.q + 16, pick_bytes(sub_scale.v, 0x03020302), sum);
  return to_floats(Words{sum});
}

/// −Σ_k x[k] · sub_min[k / 16]
[[gnu::always_inline]] inline Floats minus_sum_of_halves(const RoundedPart& x, const Pair& sub_min) {
  return to_floats(Words{times_pair(sub_min, x.minus_half_sum)});
}

inline void load(const std::byte* p, Pair& to) { to.v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline void store(const Pair& a, std::byte* p) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }

}  // namespace
}  // namespace vitrine
