// Products of few rows with a row-major matrix, which is read once. An output is one vector
// accumulator over ascending groups of 16 k, whose lanes are summed by the tree at the end. The tile only determines
// which outputs are in registers together, and the chunk of k only when partial sums are spilled to scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/unrolled.h"
#include "kernels/finish-inl.h"
#include "kernels/product-inl.h"
#include "kernels/stored-inl.h"

namespace vitrine {
namespace {

constexpr std::int64_t kPrefetchOneRow = 8192;  // bytes
constexpr std::int64_t kPrefetchTile = 8192;
constexpr std::int64_t kPrefetchPieces = 4;  // rows ahead, if a chunk of k is read from each row
constexpr std::int64_t kNear = 1 << 17;      // maximum bytes of a matrix that is assumed to be in the L2 cache
constexpr int kFewBlockRows = 96;            // maximum of Step::block_rows

/// A group of columns in a register tile.
template <DType kType>
struct Step {
  static constexpr int kXFloats = kLanes;             // of a group of x
  static constexpr int kOneRowCache = kSecondCache;   // into which a single token prefetches
  static constexpr int kTokenGroup = 12;              // maximum of token_group
  static constexpr std::int64_t kChunkFloats = 6144;  // of x in a chunk of k, all tokens of a group: 24 KiB of L1

  static constexpr int token_group(std::int64_t) { return kTokenGroup; }
  static constexpr std::int64_t chunk_floats(std::int64_t, int) { return kChunkFloats; }
  static constexpr int tile_rows(int tokens, bool near) { return few_rows(tokens, near); }
  /// Whether tiles are those of a matrix in the L2 cache: `bytes` of w, and all rows of x, in floats.
  static constexpr bool is_near(std::int64_t bytes, std::int64_t, std::int64_t) { return bytes <= kNear; }
  /// Rows of w that stay in the L2 cache for all groups; whole tiles.
  static constexpr std::int64_t block_rows(std::int64_t) { return kFewBlockRows; }

  /// acc[t][r] += x[t, k] · w[r, k] for sixteen k, or for the `rest` that remain, lane by lane. `x` and `w` are the
  /// rows.
  template <int kTokens, int kRows>
  [[gnu::always_inline]] static void add(const float* const (&x)[kTokens], const std::byte* const (&w)[kRows],
                                         std::int64_t k, int rest, Vec (&acc)[kTokens][kRows]) {
    Vec w_k[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const std::byte* const from = w[r] + k * kSize<kType>;
      w_k[r] = rest == kLanes ? load<kType>(from) : load_first<kType>(from, rest);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const Vec x_k = rest == kLanes ? load_f32(x[t] + k) : load_f32_first(x[t] + k, rest);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) acc[t][r] = fma(x_k, w_k[r], acc[t][r]);
    }
  }
};

/// Where column k, which begins a group, is in a row of x.
template <DType kType>
constexpr std::int64_t x_offset(std::int64_t k) {
  return k / kGroup<kType> * Step<kType>::kXFloats;
}

/// The same over `cols` k, prefetching w `ahead` bytes in advance.
template <DType kType, int kCache, int kTokens, int kRows>
[[gnu::always_inline]] inline void accumulate(const Product& p, const float* x, const std::byte* w, std::int64_t cols,
                                              std::int64_t ahead, Vec (&acc)[kTokens][kRows]) {
  constexpr int kLine = kSize<kType> == 4 ? kLanes : 2 * kLanes;  // elements per prefetch
  constexpr int kStep = kGroup<kType>;
  const float* x_rows[kTokens];
  const std::byte* w_rows[kRows];
  unrolled<kTokens>([&](auto t) { x_rows[t] = x + t * p.ldx; });
  unrolled<kRows>([&](auto r) { w_rows[r] = w + r * p.w_stride; });
  const std::int64_t lines = cols & -std::int64_t{kLine};
  std::int64_t k = 0;
  for (; k < lines; k += kLine) {
    if constexpr (kCache != kNoPrefetch) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) __builtin_prefetch(w_rows[r] + (k * kSize<kType> + ahead), 0, kCache);
    }
#pragma GCC unroll 2
    for (int i = 0; i < kLine; i += kStep) Step<kType>::add(x_rows, w_rows, k + i, kStep, acc);
  }
  for (; kLine > kStep && k + kStep <= cols; k += kStep) Step<kType>::add(x_rows, w_rows, k, kStep, acc);
  if (k < cols) Step<kType>::add(x_rows, w_rows, k, static_cast<int>(cols - k), acc);
}

/// kTokens tokens and all rows of w, over all of k: kRows rows at a time, then fewer.
template <DType kType, int kTokens, int kRows>
void whole_tiles(const Product& product, std::int64_t rows, std::int64_t ahead) {
  Product p = product;
  for (; rows >= kRows; rows -= kRows) {
    Vec acc[kTokens][kRows];
    unrolled<kTokens>([&](auto t) { unrolled<kRows>([&](auto r) { acc[t][r] = zero(); }); });
    accumulate<kType, kFirstCache>(p, p.x, p.w, p.cols, ahead, acc);
    finish(acc, p.y, p.ldy);
    p.w += kRows * p.w_stride, p.y += kRows;
  }
  if constexpr (kRows > 1) {
    if (rows > 0) whole_tiles<kType, kTokens, kRows == 8 ? 4 : 1>(p, rows, ahead);
  }
}

/// One register tile over one chunk of k. Its partial sums are kept in `spill` between two chunks.
template <DType kType, int kTokens, int kRows>
void few_tile(const Product& p, std::int64_t token, std::int64_t row, Range k, float* spill) {
  Vec acc[kTokens][kRows];
  unrolled<kTokens>([&](auto t) {
    unrolled<kRows>([&](auto r) { acc[t][r] = k.begin == 0 ? zero() : load_f32(spill + (t * kRows + r) * kLanes); });
  });
  const std::byte* w = p.w + row * p.w_stride + k.begin * kSize<kType>;
  const bool whole = k.end - k.begin == p.cols;
  const std::int64_t next_tile =
      whole ? larger(kPrefetchTile, kRows * p.w_stride) : larger(kRows, kPrefetchPieces) * p.w_stride;
  accumulate<kType, kFirstCache>(p, p.x + token * p.ldx + x_offset<kType>(k.begin), w, k.end - k.begin, next_tile, acc);
  if (k.end == p.cols) return finish(acc, p.y + token * p.ldy + row, p.ldy);
  unrolled<kTokens>(
      [&](auto t) { unrolled<kRows>([&](auto r) { store_f32(acc[t][r], spill + (t * kRows + r) * kLanes); }); });
}

/// The tiles of all tokens and kRows rows; the last tile may be smaller.
template <DType kType, int kTokens, int kRows>
void few_tiles(const Product& p, Range tokens, std::int64_t row, Range k, float* spill) {
  for (; tokens.begin + kTokens <= tokens.end; tokens.begin += kTokens) {
    few_tile<kType, kTokens, kRows>(p, tokens.begin, row, k, spill);
    spill += kTokens * kRows * kLanes;
  }
  if constexpr (kTokens > 1) {
    if (tokens.begin < tokens.end) few_tiles<kType, kTokens - 1, kRows>(p, tokens, row, k, spill);
  }
}

/// A group of tokens and at most kFewBlockRows rows, in tiles of kTokens by kRows.
template <DType kType, int kTokens, int kRows>
void few_block(const Product& p, std::int64_t tokens, std::int64_t rows) {
  using S = Step<kType>;
  static_assert(kFewBlockRows * S::kTokenGroup * kLanes <= kScratchFloats);
  const std::int64_t most = S::chunk_floats(tokens, kRows) / tokens / S::kXFloats * kGroup<kType>;
  const std::int64_t chunk = even_part(p.cols, most, kGroup<kType>);
  if (tokens == kTokens && chunk >= p.cols) {
    return whole_tiles<kType, kTokens, kRows>(p, rows, larger(kPrefetchTile, kRows * p.w_stride));
  }
  Range k = {0, 0};
  do {  // once even without columns, for sums of zero
    k = {k.end, smaller(k.end + chunk, p.cols)};
    std::int64_t row = 0;
    for (; row + kRows <= rows; row += kRows) {
      few_tiles<kType, kTokens, kRows>(p, {0, tokens}, row, k, p.scratch + row * tokens * kLanes);
    }
    if constexpr (kRows == 8) {
      if (row + 4 <= rows) {
        few_tiles<kType, kTokens, 4>(p, {0, tokens}, row, k, p.scratch + row * tokens * kLanes);
        row += 4;
      }
    }
    for (; row < rows; ++row) few_tiles<kType, kTokens, 1>(p, {0, tokens}, row, k, p.scratch + row * tokens * kLanes);
  } while (k.end < p.cols);
}

/// The same with a number of tokens per tile that is known only at run time. `near`: tiles are those of a matrix in the
/// L2 cache.
template <DType kType, int kTokens>
void few_block_by(std::int64_t tile, bool near, const Product& p, std::int64_t tokens, std::int64_t rows) {
  if constexpr (kTokens > 1) {
    if (tile < kTokens) return few_block_by<kType, kTokens - 1>(tile, near, p, tokens, rows);
  }
  using S = Step<kType>;
  constexpr int kNearRows = S::tile_rows(kTokens, true), kFarRows = S::tile_rows(kTokens, false);
  if constexpr (kNearRows != kFarRows) {
    if (near) return few_block<kType, kTokens, kNearRows>(p, tokens, rows);
  }
  few_block<kType, kTokens, kFarRows>(p, tokens, rows);
}

/// One token and a matrix in memory, which is read row by row. The lanes of some rows are summed together.
template <DType kType>
void one_token_in_order(const Product& product, std::int64_t rows) {
  Product p = product;
  for (; rows >= kOneTokenRows; rows -= kOneTokenRows) {
    Vec acc[1][kOneTokenRows];
    unrolled<kOneTokenRows>([&](auto r) {
      Vec one[1][1] = {{zero()}};
      accumulate<kType, Step<kType>::kOneRowCache>(p, p.x, p.w + r * p.w_stride, p.cols, kPrefetchOneRow, one);
      acc[0][r] = one[0][0];
    });
    finish(acc, p.y, p.ldy);
    p.w += kOneTokenRows * p.w_stride, p.y += kOneTokenRows;
  }
  whole_tiles<kType, 1, 1>(p, rows, kPrefetchOneRow);
}

/// The same in kOneTokenRows bands of neighboring rows, all of which are read at once, each as one long stream.
template <DType kType>
void one_token_in_bands(const Product& product, std::int64_t rows) {
  Product p = product;
  const std::int64_t band = rows / kOneTokenRows;
  p.w_stride *= band;
  for (std::int64_t r = 0; r < band; ++r) {
    Vec acc[1][kOneTokenRows];
    float sums[kOneTokenRows];
    unrolled<kOneTokenRows>([&](auto i) { acc[0][i] = zero(); });
    accumulate<kType, kNoPrefetch>(p, p.x, product.w + r * product.w_stride, p.cols, 0, acc);
    finish(acc, sums, kOneTokenRows);
    unrolled<kOneTokenRows>([&](auto i) { p.y[r + i * band] = sums[i]; });
  }
  p = product;
  p.w += band * kOneTokenRows * p.w_stride, p.y += band * kOneTokenRows;
  whole_tiles<kType, 1, 1>(p, rows % kOneTokenRows, kPrefetchOneRow);
}

template <DType kType>
void matmul_one_token(const Product& p, std::int64_t rows) {
  if (kOneTokenBands) return one_token_in_bands<kType>(p, rows);
  one_token_in_order<kType>(p, rows);
}

/// All groups of tokens are multiplied by one block of rows before the next block, so that w is read from memory once.
template <DType kType>
void matmul_few(const Product& p, std::int64_t tokens, std::int64_t rows) {
  const bool near = Step<kType>::is_near(rows * p.w_stride, tokens, x_offset<kType>(p.cols));
  if (tokens == 1 && !near) return matmul_one_token<kType>(p, rows);
  if (tokens == 1) return whole_tiles<kType, 1, kOneTokenRows>(p, rows, kOneTokenRows * p.w_stride);
  const std::int64_t group = even_part(tokens, Step<kType>::token_group(tokens), 1);
  const std::int64_t block = Step<kType>::block_rows(p.w_stride);
  for (std::int64_t row = 0; row < rows; row += block) {
    for (std::int64_t t = 0; t < tokens; t += group) {
      Product part = p;
      part.x += t * p.ldx, part.w += row * p.w_stride, part.y += t * p.ldy + row;
      const std::int64_t n = smaller(group, tokens - t);
      few_block_by<kType, kFewTokens>(even_part(n, kFewTokens, 1), near, part, n, smaller(block, rows - row));
    }
  }
}

}  // namespace
}  // namespace vitrine
