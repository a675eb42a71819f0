// Products of rows with a stored matrix. Whatever the tile, an output is one vector accumulator over ascending groups
// of 16 k, its lanes summed at the end by the tree: the tile decides only which outputs are in registers together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/stored-inl.h"
#include "kernels/unrolled.h"

namespace vitrine {
namespace {

// A block of tokens and rows is worked through in chunks of k: the tile's rows of w stay in the first cache over all
// tokens of the block, the block's chunk of x (48 · 512 · 4 = 96 KiB) in the second; accumulators wait in `parked`.
constexpr int kBlockTokens = 48;
constexpr int kBlockRows = 16;
constexpr std::int64_t kChunk = 512;
constexpr std::int64_t kPrefetchBytes = 2048;
constexpr std::int64_t kPrefetchGroups = 2;  // of 16 k, where w lies transposed

/// What the tiles of one product share.
struct Product {
  const float* x;
  std::int64_t ldx;
  const std::byte* w;
  std::int64_t w_stride;  // bytes from one row to the next
  std::int64_t cols;
  float* y;
  std::int64_t ldy;
  bool stream;  // w is read once: bound by memory
};

constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

struct Range {
  std::int64_t begin, end;
};

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

/// Sixteen outputs of one token, one in each lane, from w whose rows lie side by side. What is a lane in the row-major
/// product is a vector here, one for each k mod 16; the additions of each output are the same.
template <DType kType, class LoadW>
Vec sixteen_outputs(const float* x, const std::byte* w, std::int64_t w_stride, std::int64_t cols, LoadW load_w) {
  Vec acc[kLanes];
  unrolled<kLanes>([&](auto l) { acc[l] = zero(); });
  std::int64_t k = 0;
  for (; k + kLanes <= cols; k += kLanes) {
    unrolled<kLanes>([&](auto l) {
      const std::byte* at = w + (k + l) * w_stride;
      __builtin_prefetch(at + kPrefetchGroups * kLanes * w_stride);
      acc[l] = fma(broadcast(x[k + l]), load_w(at), acc[l]);
    });
  }
  if (k < cols) {  // the padding of the last group is multiplied too: it may turn -0 into +0
    unrolled<kLanes>([&](auto l) {
      acc[l] =
          k + l < cols ? fma(broadcast(x[k + l]), load_w(w + (k + l) * w_stride), acc[l]) : fma(zero(), zero(), acc[l]);
    });
  }
  unrolled<8>([&](auto l) { acc[l] = acc[l] + acc[l + 8]; });
  unrolled<4>([&](auto l) { acc[l] = acc[l] + acc[l + 4]; });
  unrolled<2>([&](auto l) { acc[l] = acc[l] + acc[l + 2]; });
  return acc[0] + acc[1];
}

template <DType kType>
void matmul_transposed(const Product& p, std::int64_t tokens, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; r += kLanes) {
    const std::byte* w = p.w + r * kSize<kType>;
    const int count = static_cast<int>(smaller(rows - r, kLanes));
    for (std::int64_t t = 0; t < tokens; ++t) {
      const float* x = p.x + t * p.ldx;
      float* y = p.y + t * p.ldy + r;
      if (count == kLanes) {
        const auto load_w = [](const std::byte* at) { return load<kType>(at); };
        store_f32(sixteen_outputs<kType>(x, w, p.w_stride, p.cols, load_w), y);
      } else {
        const auto load_w = [count](const std::byte* at) { return load_first<kType>(at, count); };
        store_f32_first(sixteen_outputs<kType>(x, w, p.w_stride, p.cols, load_w), y, count);
      }
    }
  }
}

void matmul(const float* x, std::int64_t ldx, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy) {
  with_type(w.dtype, [&](auto stored) {
    constexpr DType kType = decltype(stored)::kDType;
    const bool transposed = w.col_stride != 1;
    const std::int64_t stride = (transposed ? w.col_stride : w.row_stride) * kSize<kType>;
    const Product p = {x, ldx, w.data, stride, w.cols, y, ldy, tokens <= kTileTokens};
    if (transposed) return matmul_transposed<kType>(p, tokens, w.rows);
    if (tokens == 1) return matmul_row_major<kType, 1, kSingleRows>(p, tokens, w.rows);
    matmul_row_major<kType, kTileTokens, kTileRows>(p, tokens, w.rows);
  });
}

/// z[d] += Σ_j p[j] v[j, d] for kVecs vectors of d, which stay in registers over all j.
template <int kVecs, class LoadV>
void weighted_columns(const float* p, const std::byte* v, std::int64_t v_stride, std::int64_t rows, Vec (&z)[kVecs],
                      LoadV load_v) {
  for (std::int64_t j = 0; j < rows; ++j) {
    const Vec weight = broadcast(p[j]);
    unrolled<kVecs>([&](auto i) { z[i] = fma(weight, load_v(v + j * v_stride, i), z[i]); });
  }
}

void weighted_rows(const float* p, const MatrixView& v, float* z) {
  with_type(v.dtype, [&](auto stored) {
    constexpr DType kType = decltype(stored)::kDType;
    constexpr std::int64_t kVecBytes = kLanes * kSize<kType>;
    const auto load_v = [](const std::byte* at, int i) { return load<kType>(at + i * kVecBytes); };
    const std::int64_t stride = v.row_stride * kSize<kType>;
    std::int64_t d = 0;
    const auto columns = [&](auto& out) {
      constexpr int kVecs = static_cast<int>(sizeof(out) / sizeof(Vec));
      unrolled<kVecs>([&](auto i) { out[i] = load_f32(z + d + i * kLanes); });
      weighted_columns(p, v.data + d * kSize<kType>, stride, v.rows, out, load_v);
      unrolled<kVecs>([&](auto i) { store_f32(out[i], z + d + i * kLanes); });
      d += kVecs * kLanes;
    };
    while (d + kDepthVecs * kLanes <= v.cols) {
      Vec many[kDepthVecs];
      columns(many);
    }
    while (d + kLanes <= v.cols) {
      Vec one[1];
      columns(one);
    }
    if (d < v.cols) {
      const int rest = static_cast<int>(v.cols - d);
      Vec part[1] = {load_f32_first(z + d, rest)};
      weighted_columns(p, v.data + d * kSize<kType>, stride, v.rows, part,
                       [rest](const std::byte* at, int) { return load_first<kType>(at, rest); });
      store_f32_first(part[0], z + d, rest);
    }
  });
}

}  // namespace
}  // namespace vitrine
