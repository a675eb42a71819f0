// The sum of products with AVX-VNNI.
#pragma once

#include "kernels/blocks_m256.h"

namespace vitrine {
namespace {

template <int kBits, int kOffset, int kCount>
[[gnu::always_inline]] inline Words dot(const Words* codes, const std::int8_t* x, std::int32_t minus_sum) {
  __m256i sum = times_offset<kOffset>(minus_sum);
  unrolled<kCount>([&](auto i) { sum = _mm256_dpbusd_avx_epi32(sum, codes[i].v, broadcast_codes(x + 4 * i)); });
  return {sum};
}

}  // namespace
}  // namespace vitrine
