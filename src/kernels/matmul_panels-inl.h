// Products with a transposed matrix: the same sums as with a row-major one, in the same order, without transposing it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/product-inl.h"
#include "kernels/stored-inl.h"
#include "kernels/unrolled.h"

namespace vitrine {
namespace {

// A chunk of w, 128 k by 64 rows, is widened into a panel of 32 KiB that the tokens of a block share; the accumulators
// of the block wait in `parked`, 64 KiB.
constexpr int kPanelTokens = 16;
constexpr int kPanelRows = 64;
constexpr std::int64_t kPanelCols = 128;
constexpr std::int64_t kPrefetchPanel = 16;  // rows of k

/// Sixteen outputs of one token. What is a lane in the row-major product is a vector of outputs here, one for each
/// k mod 16; the additions of each output are the same.
using PanelSums = Vec[kLanes];

/// w[k, row … row + rows) widened, zeros behind, one line of the panel for each k of a chunk. The rows of a transposed
/// matrix are pages apart: read where they lie by every token they would fall out of the caches in between.
template <DType kType>
void fill_panel(const Product& p, std::int64_t row, int rows, Range k, float* panel) {
  for (std::int64_t i = k.begin; i < k.end; ++i) {
    const std::byte* at = p.w + i * p.w_stride + row * kSize<kType>;
    for (int r = 0; r < kPanelRows; r += kLanes, panel += kLanes) {
      const std::byte* from = at + r * kSize<kType>;
      __builtin_prefetch(from + kPrefetchPanel * p.w_stride);
      if (rows - r >= kLanes) {
        store_f32(load<kType>(from), panel);
      } else {
        store_f32(rows - r > 0 ? load_first<kType>(from, rows - r) : zero(), panel);
      }
    }
  }
}

/// acc[k mod 16] += x[k] · panel[k, sixteen outputs]
[[gnu::always_inline]] inline void accumulate_panel(const float* x, const float* panel, std::int64_t cols,
                                                    PanelSums& acc) {
  std::int64_t k = 0;
  for (; k + kLanes <= cols; k += kLanes) {
    unrolled<kLanes>(
        [&](auto l) { acc[l] = fma(broadcast(x[k + l]), load_f32(panel + (k + l) * kPanelRows), acc[l]); });
  }
  if (k == cols) return;
  unrolled<kLanes>([&](auto l) {  // the padding of the last group is multiplied too: it may turn -0 into +0
    acc[l] = k + l < cols ? fma(broadcast(x[k + l]), load_f32(panel + (k + l) * kPanelRows), acc[l])
                          : fma(zero(), zero(), acc[l]);
  });
}

/// Sixteen outputs of one token over one chunk of k.
inline void panel_tile(const Product& p, const float* x, const float* panel, Range k, int count, float* y,
                       float* parked) {
  PanelSums acc;
  unrolled<kLanes>([&](auto l) { acc[l] = k.begin == 0 ? zero() : load_f32(parked + l * kLanes); });
  accumulate_panel(x + k.begin, panel, k.end - k.begin, acc);
  if (k.end < p.cols) {
    unrolled<kLanes>([&](auto l) { store_f32(acc[l], parked + l * kLanes); });
    return;
  }
  unrolled<8>([&](auto l) { acc[l] = acc[l] + acc[l + 8]; });
  unrolled<4>([&](auto l) { acc[l] = acc[l] + acc[l + 4]; });
  unrolled<2>([&](auto l) { acc[l] = acc[l] + acc[l + 2]; });
  store_f32_first(acc[0] + acc[1], y, count);
}

template <DType kType>
void panel_block(const Product& p, Range tokens, std::int64_t row, int rows) {
  alignas(64) float panel[kPanelCols * kPanelRows];
  alignas(64) float parked[kPanelTokens * kPanelRows * kLanes];
  Range k = {0, 0};
  do {
    k = {k.end, smaller(k.end + kPanelCols, p.cols)};
    fill_panel<kType>(p, row, rows, k, panel);
    float* slot = parked;
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      for (int r = 0; r < rows; r += kLanes, slot += kLanes * kLanes) {
        const int count = rows - r < kLanes ? rows - r : kLanes;
        panel_tile(p, p.x + t * p.ldx, panel + r, k, count, p.y + t * p.ldy + row + r, slot);
      }
    }
  } while (k.end < p.cols);
}

template <DType kType>
void matmul_transposed(const Product& p, std::int64_t tokens, std::int64_t rows) {
  for (std::int64_t t = 0; t < tokens; t += kPanelTokens) {
    for (std::int64_t r = 0; r < rows; r += kPanelRows) {
      panel_block<kType>(p, {t, smaller(t + kPanelTokens, tokens)}, r, static_cast<int>(smaller(rows - r, kPanelRows)));
    }
  }
}

}  // namespace
}  // namespace vitrine
