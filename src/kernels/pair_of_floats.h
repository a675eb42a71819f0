// The sub-scales and sub-minima of a part as floats, for instruction sets that sum products in 32 bits. The sums of
// products with them are below 2^24, so every operation is exact. The vector type and dot() come before this header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace vitrine {
namespace {

/// Two integers of 8 bits per row, one for each half of a part.
struct FloatPair {
  Floats half[2];
};
using Pair = FloatPair;

/// Bytes `first` and first + 1, as signed integers.
[[gnu::always_inline]] inline Pair byte_pair(const Words& word, int first) {
  const auto byte = [&](int i) __attribute__((always_inline)) {
    const Words flipped = ((word >> (8 * i)) & 0xFFU) ^ 0x80U;  // the byte + 128
    return to_floats(flipped - 0x80U);
  };
  return {{byte(first), byte(first + 1)}};
}

/// Σ_k (code[k] − kOffset) · x[k] · sub_scale[k / 16]
template <int kBits, int kOffset>
[[gnu::always_inline]] inline Floats dot_halves(const Words* codes, const RoundedPart& x, const Pair& sub_scale) {
  const Floats low = to_floats(dot<kBits, kOffset, 4>(codes, x.q, x.minus_half_sum[0]));
  const Floats high = to_floats(dot<kBits, kOffset, 4>(codes + 4, x.q + 16, x.minus_half_sum[1]));
  return fma(low, sub_scale.half[0], high * sub_scale.half[1]);
}

/// −Σ_k x[k] · sub_min[k / 16]
[[gnu::always_inline]] inline Floats minus_sum_of_halves(const RoundedPart& x, const Pair& sub_min) {
  const auto sum = [&](int i) { return broadcast(static_cast<float>(x.minus_half_sum[i])); };
  return fma(sum(0), sub_min.half[0], sum(1) * sub_min.half[1]);
}

inline void load(const std::byte* p, Pair& to) {
  load(p, to.half[0]);
  load(p + sizeof(Floats), to.half[1]);
}
inline void store(const Pair& a, std::byte* p) {
  store(a.half[0], p);
  store(a.half[1], p + sizeof(Floats));
}

}  // namespace
}  // namespace vitrine
