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
  static constexpr int kOneRowCache = kFirstCache;  // a seventh faster than the second cache
  static constexpr int kTokenGroup = 12;
  static constexpr std::int64_t kBlockBytes = std::int64_t{1} << 19;  // of w in half of an L2 cache of 1 MiB

  /// A few tokens take every tile of w while it is in the L1 cache, because w comes from memory.
  static constexpr int token_group(std::int64_t tokens) { return tokens <= kTokenGroup ? kTokenGroup : 6; }
  /// 14 KiB for one tile of tokens: a tile of w and the next one take 18 KiB of the same L1 cache.
  static constexpr std::int64_t chunk_floats(std::int64_t tokens, int rows) {
    return rows == 1 ? std::int64_t{1} << 40 : tokens > 6 ? 6144 : 3456;
  }
  /// Up to five tokens whose x is in the L1 cache wait for memory, so they read w row by row.
  static constexpr int tile_rows(int tokens, bool near) { return tokens < 6 && !near ? 1 : 4; }
  static constexpr bool is_near(std::int64_t bytes, std::int64_t tokens, std::int64_t x_floats) {
    return bytes <= kNear || (tokens > 1 && (tokens > 5 || tokens * x_floats > 7168));
  }
  static constexpr std::int64_t block_rows(std::int64_t row_bytes) {
    return smaller(kFewBlockRows, larger(8, kBlockBytes / (row_bytes + 1) / 4 * 4));
  }

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
