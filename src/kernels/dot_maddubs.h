// The sum of products with AVX2. VPMADDUBSW adds two products in 16 bits and saturates, so as many of its results are
// added in 16 bits as cannot exceed 32,767. With |x| ≤ 127 they are 2 · 15 · 127 for codes of 4 bits (8 of them fit),
// 2 · 31 · 127 for 5 bits (4), 2 · 63 · 127 for 6 bits (2). Codes of 8 bits do not fit; their offset of 128 makes them
// signed numbers w, and the product is |w| · (sign of w) x, of which two are at most 2 · 128 · 127.
#pragma once

#include "kernels/blocks_m256.h"

namespace vitrine {
namespace {

/// Sums that fit in 16 bits.
constexpr int sums_in_16_bits(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; }

template <int kBits, int kOffset, int kCount>
[[gnu::always_inline]] inline Words dot(const Words* codes, const std::int8_t* x, std::int32_t minus_sum) {
  static_assert(kBits <= 6 || kOffset == 128);
  constexpr int kFit = sums_in_16_bits(kBits), kSums = kFit < kCount ? kFit : kCount;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sum = kBits == 8 ? _mm256_setzero_si256() : times_offset<kOffset>(minus_sum);
  unrolled<kCount / kSums>([&](auto group) {
    __m256i few = _mm256_setzero_si256();
    unrolled<kSums>([&](auto j) {
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
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(few, ones));
  });
  return {sum};
}

}  // namespace
}  // namespace vitrine
