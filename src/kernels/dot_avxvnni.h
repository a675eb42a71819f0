// The sum of products with AVX-VNNI.
#pragma once

#include "kernels/blocks_m256.h"

namespace vitrine {
namespace {

template <int kWord, int kCount, int kGroups, class Part>
[[gnu::always_inline]] inline void dot(const Part (&w)[kGroups], const std::int8_t* x, std::int32_t first,
                                       Words (&sums)[kGroups]) {
  for (Words& sum : sums) sum.v = _mm256_set1_epi32(first);
  unrolled<kCount>([&](auto i) {
    const __m256i x_i = broadcast_codes(x + 4 * (kWord + i));
    unrolled<kGroups>([&](auto g) { sums[g].v = _mm256_dpbusd_avx_epi32(sums[g].v, w[g].codes[kWord + i].v, x_i); });
  });
}

}  // namespace
}  // namespace vitrine
