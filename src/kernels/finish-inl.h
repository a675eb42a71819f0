// The end of a register tile: the sums of its lanes.
#pragma once

#include <cstdint>

#include "base/unrolled.h"
#include "kernels/stored-inl.h"

namespace vitrine {
namespace {

/// The lane sums of n vectors.
template <int n>
[[gnu::always_inline]] inline void sum_lanes_of(const Vec* a, float* out) {
  constexpr int kEights = n / 8 * 8, kFours = n / 4 * 4;
  unrolled<n / 8>([&](auto i) { sum_lanes_of_8(a + 8 * i, out + 8 * i); });
  if constexpr (kFours > kEights) sum_lanes_of_4(a + kEights, out + kEights);
  unrolled<n - kFours>([&](auto i) { out[kFours + i] = sum_lanes(a[kFours + i]); });
}

/// y[t, r] = the sum of the lanes of acc[t][r]; += if `adds`.
template <int kTokens, int kRows>
[[gnu::always_inline]] inline void finish(const Vec (&acc)[kTokens][kRows], float* y, std::int64_t ldy,
                                          bool adds = false) {
  if (kRows % 8 == 0 && !adds) {
    return unrolled<kTokens>([&](auto t) { sum_lanes_of<kRows>(acc[t], y + t * ldy); });
  }
  float sums[kTokens][kRows];
  sum_lanes_of<kTokens * kRows>(acc[0], sums[0]);
  unrolled<kTokens>([&](auto t) {
    float* const row = y + t * ldy;
    if (adds) unrolled<kRows>([&](auto r) { sums[t][r] += row[r]; });
    unrolled<kRows>([&](auto r) { row[r] = sums[t][r]; });
  });
}

}  // namespace
}  // namespace vitrine
