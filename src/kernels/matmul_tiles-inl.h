// Products with a row-major matrix. Whatever the tile, an output is one vector accumulator over ascending groups
// of 16 k, its lanes summed at the end by the tree: the tile decides only which outputs are in registers together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/product-inl.h"
#include "kernels/stored-inl.h"
#include "kernels/unrolled.h"

namespace vitrine {
namespace {

// A block of tokens and rows is worked through in chunks of k: the tile's rows of w stay in the first cache over all
// tokens of the block, the block's chunk of x (48 · 768 · 4 = 144 KiB) in the second; accumulators wait in `parked`.
constexpr int kBlockTokens = 48;
constexpr int kBlockRows = 16;
constexpr std::int64_t kChunk = 768;
constexpr std::int64_t kPrefetchBytes = 2048;

/// acc[t][r] += x[t, k] · w[r, k] for sixteen k, or the `rest` of them, lane by lane.
template <DType kType, int kTokens, int kRows>
[[gnu::always_inline]] inline void step(const Product& p, const float* x, const std::byte* w, int rest,
                                        Vec (&acc)[kTokens][kRows]) {
  Vec w_k[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    w_k[r] = rest == kLanes ? load<kType>(w + r * p.w_stride) : load_first<kType>(w + r * p.w_stride, rest);
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const Vec x_k = rest == kLanes ? load_f32(x + t * p.ldx) : load_f32_first(x + t * p.ldx, rest);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) acc[t][r] = fma(x_k, w_k[r], acc[t][r]);
  }
}

/// The same over a range of k.
template <DType kType, int kTokens, int kRows>
[[gnu::always_inline]] inline void accumulate(const Product& p, const float* x, const std::byte* w, Range range,
                                              Vec (&acc)[kTokens][kRows]) {
  const std::int64_t row_bytes = p.cols * kSize<kType>;
  std::int64_t k = range.begin;
  for (; k + kLanes <= range.end; k += kLanes) {
    if (p.stream) {  // ask for what comes next, at a row's end for the rows of the next tile
      const std::int64_t ahead = k * kSize<kType> + kPrefetchBytes;
      const std::byte* next = w + (ahead < row_bytes ? ahead : ahead - row_bytes + kRows * p.w_stride);
      for (int r = 0; r < kRows; ++r) __builtin_prefetch(next + r * p.w_stride);
    }
    step<kType>(p, x + k, w + k * kSize<kType>, kLanes, acc);
  }
  if (k < range.end) step<kType>(p, x + k, w + k * kSize<kType>, static_cast<int>(range.end - k), acc);
}

/// y[t, r] = the sum of the lanes of acc[t][r].
template <int kTokens, int kRows>
[[gnu::always_inline]] inline void finish(const Vec (&acc)[kTokens][kRows], float* y, std::int64_t ldy) {
  unrolled<kTokens>([&](auto t) {
    if constexpr (kRows == 4) {
      sum_lanes_of_4(acc[t][0], acc[t][1], acc[t][2], acc[t][3], y + t * ldy);
    } else {
      unrolled<kRows>([&](auto r) { y[t * ldy + r] = sum_lanes(acc[t][r]); });
    }
  });
}

/// One register tile over one chunk of k, for up to kTokens of the given tokens.
template <DType kType, int kTokens, int kRows>
void tile(const Product& p, Range tokens, std::int64_t row, Range k, float* parked) {
  if constexpr (kTokens > 1) {
    if (tokens.end - tokens.begin < kTokens) return tile<kType, kTokens - 1, kRows>(p, tokens, row, k, parked);
  }
  Vec acc[kTokens][kRows];
  unrolled<kTokens>([&](auto t) {
    unrolled<kRows>([&](auto r) { acc[t][r] = k.begin == 0 ? zero() : load_f32(parked + (t * kRows + r) * kLanes); });
  });
  accumulate<kType>(p, p.x + tokens.begin * p.ldx, p.w + row * p.w_stride, k, acc);
  if (k.end == p.cols) return finish(acc, p.y + tokens.begin * p.ldy + row, p.ldy);
  unrolled<kTokens>(
      [&](auto t) { unrolled<kRows>([&](auto r) { store_f32(acc[t][r], parked + (t * kRows + r) * kLanes); }); });
}

/// The tiles of all tokens beside kRows rows of w. Returns the parking place behind theirs.
template <DType kType, int kTokens, int kRows>
float* tiles_of_rows(const Product& p, Range tokens, std::int64_t row, Range k, float* parked) {
  for (; tokens.begin < tokens.end; tokens.begin += kTokens) {
    tile<kType, kTokens, kRows>(p, tokens, row, k, parked);
    parked += kTokens * kRows * kLanes;
  }
  return parked;
}

template <DType kType, int kTokens, int kRows>
void block(const Product& p, Range tokens, Range rows) {
  alignas(64) float parked[kBlockTokens * kBlockRows * kLanes];
  const std::int64_t chunk = tokens.end - tokens.begin <= kTokens ? p.cols : kChunk;
  Range k = {0, 0};
  do {  // once even when there are no columns: the sums are zero then
    k = {k.end, smaller(k.end + chunk, p.cols)};
    float* at = parked;
    std::int64_t row = rows.begin;
    for (; row + kRows <= rows.end; row += kRows) at = tiles_of_rows<kType, kTokens, kRows>(p, tokens, row, k, at);
    for (; row < rows.end; ++row) at = tiles_of_rows<kType, kTokens, 1>(p, tokens, row, k, at);
  } while (k.end < p.cols);
}

template <DType kType, int kTokens, int kRows>
void matmul_row_major(const Product& p, std::int64_t tokens, std::int64_t rows) {
  for (std::int64_t t = 0; t < tokens; t += kBlockTokens) {
    for (std::int64_t r = 0; r < rows; r += kBlockRows) {
      block<kType, kTokens, kRows>(p, {t, smaller(t + kBlockTokens, tokens)}, {r, smaller(r + kBlockRows, rows)});
    }
  }
}

}  // namespace
}  // namespace vitrine
