// Products of many packed rows of up to sixteen elements, such as those of a low-rank adapter. An output has one
// product per lane, so that summing the lanes is most of the work. Here a vector holds the same lane of sixteen
// outputs, and the tree of the lanes is a tree of whole vectors. The bits are those of the general product.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul_pack-inl.h"

namespace vitrine {
namespace {

constexpr std::int64_t kShortTokens = 16;  // they share the panel's way through the first cache
constexpr std::int64_t kShortRows = 1024;  // the rows of w of a panel: 64 KiB
static_assert(kShortRows * kLanes <= kScratchFloats);

/// The sums of lanes `kLane`, `kLane` + `kStep`, … of sixteen outputs: x · w with w `[16 lanes][16 outputs]`.
template <int kLane, int kStep>
[[gnu::always_inline]] inline Vec sum_of_lanes(const float* x, const float* w) {
  if constexpr (kStep == kLanes) {
    return fma(broadcast(x[kLane]), load_f32(w + kLane * kLanes), zero());
  } else {
    return sum_of_lanes<kLane, 2 * kStep>(x, w) + sum_of_lanes<kLane + kStep, 2 * kStep>(x, w);
  }
}

/// Rows of w in groups of sixteen: `[group][16 k][16 rows]`, padded with zeros. `stride`: bytes from one row to the
/// next; of a transposed matrix, from one k to the next.
template <DType kType>
void pack_short(const std::byte* from, std::int64_t stride, bool transposed, std::int64_t rows, int cols, float* to) {
  for (std::int64_t r = 0; r < rows; r += kLanes, to += kLanes * kLanes) {
    const auto here = static_cast<int>(smaller(kLanes, rows - r));
    Vec square[kLanes];
    if (transposed) {
      for (int k = 0; k < kLanes; ++k) {
        const std::byte* const at = from + r * kSize<kType> + k * stride;
        square[k] = k >= cols ? zero() : here == kLanes ? load<kType>(at) : load_first<kType>(at, here);
      }
    } else {
      load_square<kType>(from + r * stride, stride, cols, here, square);
    }
    for (int k = 0; k < kLanes; ++k) store_f32(square[k], to + k * kLanes);
  }
}

/// y `[tokens, rows]`, or += if `adds`, from a panel of pack_short.
inline void multiply_short(const float* x, std::int64_t tokens, const float* panel, std::int64_t rows, float* y,
                           std::int64_t ldy, bool adds) {
  for (std::int64_t r = 0; r < rows; r += kLanes, panel += kLanes * kLanes) {
    const auto here = static_cast<int>(smaller(kLanes, rows - r));
    for (std::int64_t t = 0; t < tokens; ++t) {
      const Vec sum = sum_of_lanes<0, 1>(x + t * kLanes, panel);
      float* const to = y + t * ldy + r;
      if (here == kLanes) {
        store_f32(adds ? load_f32(to) + sum : sum, to);
      } else {
        store_f32_first(adds ? load_f32_first(to, here) + sum : sum, to, here);
      }
    }
  }
}

/// matmul_packed for 1 to 16 columns.
template <DType kType>
void matmul_short(const float* x, std::int64_t tokens, const MatrixView& w, float* y, std::int64_t ldy, bool adds,
                  float* scratch) {
  if (tokens == 0) return;
  const bool transposed = w.col_stride != 1;
  const std::int64_t stride = (transposed ? w.col_stride : w.row_stride) * kSize<kType>;
  for (std::int64_t r = 0; r < w.rows; r += kShortRows) {
    const std::int64_t rows = smaller(kShortRows, w.rows - r);
    pack_short<kType>(w.data + (transposed ? r * kSize<kType> : r * stride), stride, transposed, rows,
                      static_cast<int>(w.cols), scratch);
    for (std::int64_t t = 0; t < tokens; t += kShortTokens) {
      multiply_short(x + t * kLanes, smaller(kShortTokens, tokens - t), scratch, rows, y + t * ldy + r, ldy, adds);
    }
  }
}

}  // namespace
}  // namespace vitrine
