// The sub-scales and sub-minima of a part as floats, for instruction sets that sum products in 32 bits. The sums of
// products with them are below 2^24, so every operation is exact. The vector type comes before this header.
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

/// sums[t][g] = Σ_k (code_g[k] − offset) · x_t[k] over kCount words of codes from word kWord on, for kTokens rows of x,
/// which are `apart` parts apart, and groups g of rows of w. All sums advance together, because each of them waits for
/// its previous product.
template <PartKind kKind, int kWord, int kCount, int kTokens, int kGroups, class Part>
[[gnu::always_inline]] inline void dot(const Part (&w)[kGroups], const RoundedPart* x, std::int64_t apart,
                                       Words (&sums)[kTokens][kGroups]) {
  unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
    constexpr int kSum = kKind.has_min && !kKind.has_halves ? 1 : kWord / 4 % 2;
    const std::int32_t first = kKind.offset > 0 ? x[t * apart].sums[kSum] : 0;
    unrolled<kGroups>([&](auto g) __attribute__((always_inline)) { sums[t][g] = all(first); });
  });
  unrolled<kCount>([&](auto i) __attribute__((always_inline)) {
    unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
      const Words x_i = all(x[t * apart].q + 4 * (kWord + i));
      unrolled<kGroups>([&](auto g) __attribute__((always_inline)) {
        sums[t][g] = add_products<kKind.bits>(sums[t][g], w[g].codes[kWord + i], x_i);
      });
    });
  });
}

/// Calls receive(t, g, Σ_k (code_g[k] − offset) · x_t[k]).
template <PartKind kKind, int kTokens, int kGroups, class Part, class Receive>
[[gnu::always_inline]] inline void dot_part(const Part (&w)[kGroups], const RoundedPart* x, std::int64_t apart,
                                            Receive receive) {
  Words sums[kTokens][kGroups];
  dot<kKind, 0, 8>(w, x, apart, sums);
  unrolled<kTokens>([&](auto t) __attribute__((always_inline)) {
    unrolled<kGroups>([&](auto g) __attribute__((always_inline)) { receive(t, g, to_floats(sums[t][g])); });
  });
}

/// Calls receive(t, g, Σ_k (code_g[k] − offset) · x_t[k] · sub_scale_g[k / 16]), for as many rows of x at a time as
/// there are registers.
template <PartKind kKind, int kTokens, int kGroups, class Part, class Receive>
[[gnu::always_inline]] inline void dot_halves(const Part (&w)[kGroups], const RoundedPart* x, std::int64_t apart,
                                              Receive receive) {
  constexpr int kTogether = kTokens < 3 ? kTokens : 3;
  Words low[kTogether][kGroups], high[kTogether][kGroups];
  dot<kKind, 0, 4>(w, x, apart, low);
  dot<kKind, 4, 4>(w, x, apart, high);
  unrolled<kTogether>([&](auto t) __attribute__((always_inline)) {
    unrolled<kGroups>([&](auto g) __attribute__((always_inline)) {
      const Pair& sub_scale = w[g].sub_scale;
      receive(t, g, fma(to_floats(low[t][g]), sub_scale.half[0], to_floats(high[t][g]) * sub_scale.half[1]));
    });
  });
  if constexpr (kTokens > kTogether) {
    dot_halves<kKind, kTokens - kTogether>(
        w, x + kTogether * apart, apart, [&](auto t, auto g, Floats sum) __attribute__((always_inline)) {
          receive(Constant<kTogether + t>{}, g, sum);
        });
  }
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
