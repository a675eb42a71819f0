// The lower half of the summation tree, from eight lanes to one; AVX2 and AVX-512 share it.
#pragma once

#include <immintrin.h>

namespace vitrine {
namespace {

/// (l, l+4), then (l, l+2), (l, l+1).
inline float sum_m256(__m256 a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/// The same additions for four vectors at once, in half the instructions.
inline __m128 sum_4_m256(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 ac = _mm256_add_ps(_mm256_permute2f128_ps(a, c, 0x20), _mm256_permute2f128_ps(a, c, 0x31));
  const __m256 bd = _mm256_add_ps(_mm256_permute2f128_ps(b, d, 0x20), _mm256_permute2f128_ps(b, d, 0x31));
  // Lanes now: ac = a0 a1 a2 a3 | c0 c1 c2 c3, bd = b0 b1 b2 b3 | d0 d1 d2 d3.
  const __m256 two = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xEE));
  const __m256 one = _mm256_add_ps(two, _mm256_movehdup_ps(two));  // a . b . | c . d .
  return _mm_shuffle_ps(_mm256_castps256_ps128(one), _mm256_extractf128_ps(one, 1), 0x88);
}

}  // namespace
}  // namespace vitrine
