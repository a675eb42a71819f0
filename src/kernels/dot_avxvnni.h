// The sum of products with AVX-VNNI.
#pragma once

#include "kernels/blocks_m256.h"

namespace vitrine {
namespace {

inline Words all(std::int32_t value) { return {_mm256_set1_epi32(value)}; }
inline Words all(const std::int8_t* four) { return {broadcast_codes(four)}; }
template <int>
inline Words add_products(Words sums, Words codes, Words x) {
  return {_mm256_dpbusd_avx_epi32(sums.v, codes.v, x.v)};
}

}  // namespace
}  // namespace vitrine
