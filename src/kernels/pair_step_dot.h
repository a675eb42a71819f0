// A group of 32 columns of bfloat16 pairs in AVX512_BF16. A row of x has the rounded elements in their order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul_few-inl.h"

namespace vitrine {
namespace {

constexpr bool kByInstruction = true;

template <>
struct Step<kPairs> {
  static constexpr int kXFloats = kLanes;
  static constexpr std::int64_t kChunkFloats = 6144;  // 24 KiB of L1
  static constexpr int kTokenGroup = 6;

  template <int kTokens, int kRows>
  [[gnu::always_inline]] static void add(const float* const (&x)[kTokens], const std::byte* const (&w)[kRows],
                                         std::int64_t k, int rest, Vec (&acc)[kTokens][kRows]) {
    __m512bh w_k[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const std::byte* const from = w[r] + k * kSize<kPairs>;
      const Words pairs = rest == kGroup<kPairs> ? load_pairs(from) : load_pairs_first(from, rest);
      w_k[r] = reinterpret_cast<__m512bh>(pairs.v);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const auto x_k = reinterpret_cast<__m512bh>(load_pairs(x[t] + k / 2).v);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) acc[t][r].v = _mm512_dpbf16_ps(acc[t][r].v, x_k, w_k[r]);
    }
  }
};

/// Stores 32 rounded elements of x.
inline void store_rounded(Vec first, Vec second, float* to) {
  store_bf16(first, to);
  store_bf16(second, to + kLanes / 2);
}

}  // namespace
}  // namespace vitrine
