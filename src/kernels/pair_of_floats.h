// The sub-scales and sub-minima of a part as floats, for instruction sets that sum products in 32 bits. The sums of
// products with them are below 2^24, so every operation is exact. The vector type and dot() come before this header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "quant/parts-inl.h"

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

/// The sums of halves, −Σ q, as the functions below read them: times the offset, or as floats in formats with a
/// minimum.
template <PartKind kKind>
void set_sums_of_halves(std::int32_t (&sums)[2]) {
  for (std::int32_t& sum : sums) {
    sum = kKind.has_min ? __builtin_bit_cast(std::int32_t, static_cast<float>(sum)) : sum * kKind.offset;
  }
}

/// Calls receive(t, g, Σ_k (code_g[k] − offset) · x_t[k]) for kTokens rows of x, which are `apart` parts apart, and
/// groups g of rows of w.
template <PartKind kKind, int kTokens, int kGroups, class Part, class Receive>
[[gnu::always_inline]] inline void dot_part(const Part (&w)[kGroups], const RoundedPart* x, std::int64_t apart,
                                            Receive receive) {
  unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
    const RoundedPart& x_t = x[t * apart];
    Words sums[kGroups];
    dot<0, 8>(w, x_t.q, kKind.offset > 0 ? x_t.sums[0] : 0, sums);
    unrolled<kGroups>([&](auto g) __attribute__((always_inline)) { receive(t, g, to_floats(sums[g])); });
  });
}

/// Calls receive(t, g, Σ_k (code_g[k] − offset) · x_t[k] · sub_scale_g[k / 16]).
template <PartKind kKind, int kTokens, int kGroups, class Part, class Receive>
[[gnu::always_inline]] inline void dot_halves(const Part (&w)[kGroups], const RoundedPart* x, std::int64_t apart,
                                              Receive receive) {
  unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
    const RoundedPart& x_t = x[t * apart];
    Words low[kGroups], high[kGroups];
    dot<0, 4>(w, x_t.q, kKind.offset > 0 ? x_t.sums[0] : 0, low);
    dot<4, 4>(w, x_t.q, kKind.offset > 0 ? x_t.sums[1] : 0, high);
    unrolled<kGroups>([&](auto g) __attribute__((always_inline)) {
      const Pair& sub_scale = w[g].sub_scale;
      receive(t, g, fma(to_floats(low[g]), sub_scale.half[0], to_floats(high[g]) * sub_scale.half[1]));
    });
  });
}

/// −Σ_k x[k] · sub_min[k / 16]
[[gnu::always_inline]] inline Floats minus_sum_of_halves(const RoundedPart& x, const Pair& sub_min) {
  const auto sum = [&](int i) { return broadcast(__builtin_bit_cast(float, x.sums[i])); };
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
