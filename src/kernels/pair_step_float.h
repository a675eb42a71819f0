// A group of 32 columns of bfloat16 pairs as multiply-adds of floats. A row of x has the odd, then the even elements of
// each group, as floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul_few-inl.h"

namespace vitrine {
namespace {

constexpr bool kByInstruction = false;

template <>
struct Step<kPairs> : Step<DType::bf16> {
  static constexpr int kXFloats = 2 * kLanes;

  template <int kTokens, int kRows>
  [[gnu::always_inline]] static void add(const float* const (&x)[kTokens], const std::byte* const (&w)[kRows],
                                         std::int64_t k, int rest, Vec (&acc)[kTokens][kRows]) {
    Words pairs[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const std::byte* const from = w[r] + k * kSize<kPairs>;
      pairs[r] = rest == kGroup<kPairs> ? load_pairs(from) : load_pairs_first(from, rest);
    }
    const auto add_half = [&](auto is_odd) __attribute__((always_inline)) {
      Vec w_k[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) w_k[r] = is_odd ? odd_of(pairs[r]) : even_of(pairs[r]);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const Vec x_k = load_f32(x[t] + k + (is_odd ? 0 : kLanes));
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) acc[t][r] = fma(x_k, w_k[r], acc[t][r]);
      }
    };
    add_half(Constant<1>{});
    add_half(Constant<0>{});
  }
};

/// Stores 32 rounded elements of x.
inline void store_rounded(Vec first, Vec second, float* to) {
  std::uint16_t element[2 * kLanes];
  store_bf16(first, element);
  store_bf16(second, element + kLanes);
  const Words pairs = load_pairs(element);
  store_f32(odd_of(pairs), to);
  store_f32(even_of(pairs), to + kLanes);
}

}  // namespace
}  // namespace vitrine
