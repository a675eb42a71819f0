// Products of few rows with a row-major matrix of E4M3, which is read once and widened in registers. The values and the
// order of the sums are those of the product with the matrix that Kernels::widen_f8 widens. A group of 16 columns has
// one scale.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/unrolled.h"
#include "kernels/finish-inl.h"
#include "kernels/product-inl.h"
#include "kernels/stored-inl.h"

namespace vitrine {
namespace {

constexpr std::int64_t kF8Line = 64;  // columns per prefetch
constexpr std::int64_t kPrefetchF8 = 4096;

/// acc[t][r] += x[t, k] · w[r, k] for sixteen k, or for the `rest` that remain. `x` and `w` are the rows.
template <int kTokens, int kRows>
[[gnu::always_inline]] inline void add_f8(const float* x, std::int64_t ldx, const std::byte* const (&w)[kRows],
                                          const Vec (&scale)[kRows], std::int64_t k, int rest,
                                          Vec (&acc)[kTokens][kRows]) {
  Vec w_k[kRows];
  unrolled<kRows>(
      [&](auto r) { w_k[r] = (rest == kLanes ? load_f8(w[r] + k) : load_f8_first(w[r] + k, rest)) * scale[r]; });
  unrolled<kTokens>([&](auto t) {
    const float* const from = x + t * ldx + k;
    const Vec x_k = rest == kLanes ? load_f32(from) : load_f32_first(from, rest);
    unrolled<kRows>([&](auto r) { acc[t][r] = fma(x_k, w_k[r], acc[t][r]); });
  });
}

/// y of kTokens rows of x and kRows rows of w from `row` on.
template <int kTokens, int kRows>
void f8_tile(const float* x, std::int64_t ldx, const MatrixView& m, std::int64_t row, float* y, std::int64_t ldy) {
  const BlockScales& s = m.scales;
  const std::byte* w[kRows];
  const float* scales[kRows];
  Vec acc[kTokens][kRows];
  unrolled<kRows>([&](auto r) {
    w[r] = m.data + (row + r) * m.row_stride;
    scales[r] = reinterpret_cast<const float*>(s.data) + (s.first_row + row + r) / s.block_rows * s.row_stride +
                s.first_col / s.block_cols;
    unrolled<kTokens>([&](auto t) { acc[t][r] = zero(); });
  });
  std::int64_t end = s.block_cols - s.first_col % s.block_cols;
  for (std::int64_t k = 0; k < m.cols; end += s.block_cols) {
    if (end > m.cols) end = m.cols;
    Vec scale[kRows];
    unrolled<kRows>([&](auto r) { scale[r] = broadcast(0x1p8f * *scales[r]++); });
    for (; k + kF8Line <= end; k += kF8Line) {
      unrolled<kRows>([&](auto r) { __builtin_prefetch(w[r] + (k + kPrefetchF8), 0, kSecondCache); });
      unrolled<kF8Line / kLanes>([&](auto i) { add_f8<kTokens>(x, ldx, w, scale, k + i * kLanes, kLanes, acc); });
    }
    for (; k + kLanes <= end; k += kLanes) add_f8<kTokens>(x, ldx, w, scale, k, kLanes, acc);
    if (k < end) add_f8<kTokens>(x, ldx, w, scale, k, static_cast<int>(end - k), acc);
    k = end;
  }
  finish(acc, y, ldy);
}

/// All rows of w, and all rows of x in groups of at most kTokens.
template <int kTokens>
void f8_groups(const float* x, std::int64_t ldx, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy) {
  constexpr int kRows = few_rows(kTokens, true);
  for (; tokens >= kTokens; tokens -= kTokens, x += kTokens * ldx, y += kTokens * ldy) {
    std::int64_t row = 0;
    for (; row + kRows <= w.rows; row += kRows) f8_tile<kTokens, kRows>(x, ldx, w, row, y + row, ldy);
    for (; row < w.rows; ++row) f8_tile<kTokens, 1>(x, ldx, w, row, y + row, ldy);
  }
  if constexpr (kTokens > 1) {
    if (tokens > 0) f8_groups<kTokens - 1>(x, ldx, tokens, w, y, ldy);
  }
}

}  // namespace
}  // namespace vitrine
