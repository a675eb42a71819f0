// Products of many rows: x is packed once and shared by all threads, panels of w are packed as they are needed, and
// register tiles read both sequentially. An output is sixteen lane sums over ascending groups of 16 k, summed by the
// tree at the end, for every tile and chunk size. Between chunks the lane sums are spilled to scratch, which does not
// change them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/unrolled.h"
#include "kernels/finish-inl.h"
#include "kernels/matmul_pack-inl.h"
#include "kernels/product-inl.h"
#include "kernels/stored-inl.h"

namespace vitrine {
namespace {

// A block of outputs is computed in chunks of k. The chunk's panel of w and the spilled sums stay in the L2 cache, and
// a tile's part of x in the L1 cache. If all of k is one chunk, nothing is spilled, and one panel is used for all of x.
constexpr int kBlockTokens = 192;  // whole tiles
constexpr int kBlockRows = 48;     // whole tiles, whole squares of a transposed matrix
constexpr int kMaxRows = 240;      // of a panel with all of k, for each of which all of x is read
constexpr std::int64_t kChunk = 512;
constexpr std::int64_t kPanelFloats = 32 * 2304;  // a panel of w

/// The number of rows of w whose panel contains all of k.
constexpr std::int64_t whole_rows(std::int64_t cols) {
  const std::int64_t padded = larger((cols + kLanes - 1) / kLanes * kLanes, kLanes);
  return smaller(kMaxRows, kPanelFloats / padded / kLanes * kLanes);
}
static_assert(whole_rows(kWhole) >= kLanes && kBlockRows * kChunk <= kPanelFloats);

static_assert(kPanelFloats + kBlockTokens * kBlockRows * kLanes <= kScratchFloats);

/// acc[t][r] += x · w over `steps` groups of 16 k, some of the lanes.
template <int kTokens>
[[gnu::always_inline]] inline void accumulate_part(const float* x, const float* w, std::int64_t steps,
                                                   Part (&acc)[kTokens][kPackedRows]) {
  for (std::int64_t s = 0; s < steps; ++s) {
    Part w_k[kPackedRows];
#pragma GCC unroll 8
    for (int r = 0; r < kPackedRows; ++r) w_k[r] = load_part(w + r * kLanes);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const Part x_k = load_part(x + t * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kPackedRows; ++r) acc[t][r] = fma(x_k, w_k[r], acc[t][r]);
    }
    x += kPackedTokens * kLanes;
    w += kPackedRows * kLanes;
  }
}

/// y of one tile whose k is one chunk and whose lane sums are all in registers.
template <int kTokens>
void whole_tile(const float* x, const float* w, std::int64_t steps, float* y, std::int64_t ldy, bool adds) {
  Vec acc[kTokens][kPackedRows];
  unrolled<kTokens>([&](auto t) { unrolled<kPackedRows>([&](auto r) { acc[t][r] = zero(); }); });
  accumulate_part<kTokens>(x, w, steps, acc);
  finish(acc, y, ldy, adds);
}

/// The lane sums of one tile, `[kTokens][kPackedRows][16]`, over one chunk of k.
template <int kTokens>
void packed_tile(const float* x, const float* w, std::int64_t steps, bool first, float* sums) {
  for (int lane = 0; lane < kLanes; lane += kPartLanes) {
    Part acc[kTokens][kPackedRows];
    unrolled<kTokens>([&](auto t) {
      unrolled<kPackedRows>(
          [&](auto r) { acc[t][r] = first ? zero_part() : load_part(sums + (t * kPackedRows + r) * kLanes + lane); });
    });
    accumulate_part<kTokens>(x + lane, w + lane, steps, acc);
    unrolled<kTokens>([&](auto t) {
      unrolled<kPackedRows>([&](auto r) { store_part(acc[t][r], sums + (t * kPackedRows + r) * kLanes + lane); });
    });
  }
}

/// The same for a number of tokens that is known only at run time.
template <int kTokens>
void packed_tile_of(int tokens, const float* x, const float* w, std::int64_t steps, bool first, float* sums) {
  if constexpr (kTokens > 1) {
    if (tokens < kTokens) return packed_tile_of<kTokens - 1>(tokens, x, w, steps, first, sums);
  }
  packed_tile<kTokens>(x, w, steps, first, sums);
}

/// y[t, r] = the sum of the lanes of the tile's accumulator for (t, r); += if `adds`.
inline void finish_tile(const float* sums, int tokens, int rows, float* y, std::int64_t ldy, bool adds) {
  if (tokens == kPackedTokens && rows == kPackedRows) {
    Vec acc[kPackedTokens][kPackedRows];
    unrolled<kPackedTokens>([&](auto t) {
      unrolled<kPackedRows>([&](auto r) { acc[t][r] = load_f32(sums + (t * kPackedRows + r) * kLanes); });
    });
    return finish(acc, y, ldy, adds);
  }
  for (int t = 0; t < tokens; ++t, y += ldy, sums += kPackedRows * kLanes) {
    for (int r = 0; r < rows; ++r) {
      const float sum = sum_lanes(load_f32(sums + r * kLanes));
      y[r] = adds ? y[r] + sum : sum;
    }
  }
}

/// y `[tokens, rows]` from tiles of x. pack_w(range of k, panel) lays out the rows of w for a chunk of k.
template <DType kType, class PackW>
void packed_block(const float* x, std::int64_t tokens, std::int64_t rows, std::int64_t cols, std::int64_t chunk,
                  float* y, std::int64_t ldy, bool adds, float* scratch, PackW pack_w) {
  float *const panel = scratch, *const all_sums = panel + kPanelFloats;
  const std::int64_t all_steps = steps_of<kType>(cols);
  Range k = {0, 0};
  do {  // once even without columns, for sums of zero
    k = {k.end, smaller(k.end + chunk, cols)};
    const std::int64_t steps = steps_of<kType>(k.end - k.begin);
    pack_w(k, panel);
    float* sums = all_sums;
    for (std::int64_t t = 0; t < tokens; t += kPackedTokens) {
      const auto here = static_cast<int>(smaller(kPackedTokens, tokens - t));
      const float* const tile = x + (t * all_steps + k.begin / kLanes * kPackedTokens) * kLanes;
      const float* w = panel;
      // The next tile of x and the next rows of y are prefetched a part at a time.
      const float* next = tile + all_steps * kPackedTokens * kLanes;
      const std::int64_t lines = steps * kPackedTokens * kPackedRows / rows + 1;
      for (std::int64_t r = 0; r < rows; r += kPackedRows, w += steps * kPackedRows * kLanes) {
        float* const to = y + t * ldy + r;
        for (std::int64_t i = 0; i < lines; ++i, next += kLanes) __builtin_prefetch(next, 0, kSecondCache);
        for (int i = 0; i < kPackedTokens; ++i) __builtin_prefetch(to + (kPackedTokens + i) * ldy, 1, kFirstCache);
        const auto wide = static_cast<int>(smaller(kPackedRows, rows - r));
        if constexpr (kPartLanes == kLanes) {
          if (chunk >= cols && here == kPackedTokens && wide == kPackedRows) {
            whole_tile<kPackedTokens>(tile, w, steps, to, ldy, adds);
            continue;
          }
        }
        packed_tile_of<kPackedTokens>(here, tile, w, steps, k.begin == 0, sums);
        if (k.end == cols) finish_tile(sums, here, wide, to, ldy, adds);
        if (chunk < cols) sums += here * kPackedRows * kLanes;
      }
    }
  } while (k.end < cols);
}

/// matmul_packed for a matrix whose rows have more than one vector of columns, or none.
template <DType kType>
void multiply_packed(const float* x, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy, bool adds,
                     float* scratch) {
  const std::int64_t x_row = steps_of<kType>(w.cols) * kLanes;
  const std::int64_t part = even_part(tokens, kBlockTokens, kPackedTokens);
  const bool transposed = w.col_stride != 1;
  const std::int64_t stride = (transposed ? w.col_stride : w.row_stride) * kSize<kType>;
  const auto lay_out = transposed ? pack_transposed<kType> : pack_row_major<kType>;
  const bool whole = w.cols <= kWhole;
  const std::int64_t chunk = whole ? kWhole : even_part(w.cols, kChunk, kGroup<kType>);
  const std::int64_t block_rows = whole ? whole_rows(x_row) : kBlockRows;
  const auto run = [&](std::int64_t t, std::int64_t r) {
    const std::int64_t rows = smaller(w.rows - r, block_rows);
    packed_block<kType>(x + t * x_row, smaller(tokens - t, part), rows, w.cols, chunk, y + t * ldy + r, ldy, adds,
                        scratch, [&](Range k, float* panel) {
                          if (whole && t > 0) return;  // the panel is still in scratch
                          const std::byte* from = w.data + (transposed ? k.begin * stride + r * kSize<kType>
                                                                       : r * stride + k.begin * kSize<kType>);
                          lay_out(from, stride, rows, k.end - k.begin, kPackedRows, panel);
                        });
  };
  if (whole) {
    for (std::int64_t r = 0; r < w.rows; r += block_rows) {
      for (std::int64_t t = 0; t < tokens; t += part) run(t, r);
    }
  } else {
    for (std::int64_t t = 0; t < tokens; t += part) {
      for (std::int64_t r = 0; r < w.rows; r += block_rows) run(t, r);
    }
  }
}

}  // namespace
}  // namespace vitrine
