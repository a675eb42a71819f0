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

}  // namespace
}  // namespace vitrine
