// Panels: pieces of x and of a stored matrix, widened to floats and laid out in the order in which tiles read them.
//
//   a tile of n rows over a chunk of k:   [steps of 16 k][n rows][16 floats]
//
// k is padded with zeros, and the last tile with rows of zeros. In the pair order, a step has the odd or the even k of
// a group of 32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/unrolled.h"
#include "kernels/product-inl.h"
#include "kernels/stored-inl.h"

namespace vitrine {
namespace {

constexpr std::int64_t kPrefetchRows = 4;  // prefetch distance of a row-major matrix, in rows
constexpr std::int64_t kSquaresAhead = 4;  // that of a transposed matrix, in squares

/// The number of steps of `cols` columns.
template <DType kType>
constexpr std::int64_t steps_of(std::int64_t cols) {
  return (cols + kGroup<kType> - 1) / kGroup<kType> * (kGroup<kType> / kLanes);
}

/// The odd and the even elements of each group of 32, sixteen every `apart` floats.
inline void pack_pairs(const std::byte* from, std::int64_t ahead, std::int64_t cols, std::int64_t apart, float* to) {
  constexpr std::int64_t kStep = kGroup<kPairs>;
  const auto put = [&](Words pairs) {
    store_f32(odd_of(pairs), to);
    store_f32(even_of(pairs), to + apart);
  };
  std::int64_t k = 0;
  for (; k + kStep <= cols; k += kStep, to += 2 * apart, from += kStep * kSize<kPairs>) {
    __builtin_prefetch(from + ahead, 0, kFirstCache);
    put(load_pairs(from));
  }
  if (k < cols) put(load_pairs_first(from, static_cast<int>(cols - k)));
}

/// One row of a tile of n rows: `cols` elements from `from` on, sixteen every n · 16 floats.
template <DType kType>
inline void pack_row(const std::byte* from, std::int64_t ahead, std::int64_t cols, std::int64_t n, float* to) {
  if constexpr (kType == kPairs) {
    pack_pairs(from, ahead, cols, n * kLanes, to);
  } else {
    std::int64_t k = 0;
    for (; k + kLanes <= cols; k += kLanes, to += n * kLanes, from += kLanes * kSize<kType>) {
      __builtin_prefetch(from + ahead, 0, kFirstCache);
      store_f32(load<kType>(from), to);
    }
    if (k < cols) store_f32(load_first<kType>(from, static_cast<int>(cols - k)), to);
  }
}

/// Tiles of n rows from a row-major matrix.
template <DType kType>
void pack_row_major(const std::byte* from, std::int64_t stride, std::int64_t rows, std::int64_t cols, std::int64_t n,
                    float* to) {
  const std::int64_t steps = steps_of<kType>(cols);
  for (std::int64_t first = 0; first < rows; first += n, to += steps * n * kLanes) {
    for (std::int64_t i = 0; i < n; ++i) {
      float* const slot = to + i * kLanes;
      if (first + i < rows) {
        pack_row<kType>(from + (first + i) * stride, kPrefetchRows * stride, cols, n, slot);
      } else {
        for (std::int64_t s = 0; s < steps; ++s) store_f32(zero(), slot + s * n * kLanes);
      }
    }
  }
}

/// Sixteen k of sixteen rows of a transposed matrix, as sixteen vectors over k, padded with zeros (`rows` may be
/// negative: all of the square is padding).
template <DType kType>
[[gnu::always_inline]] inline void load_square(const std::byte* from, std::int64_t stride, int rows, int cols,
                                               Vec (&square)[kLanes]) {
  for (int k = 0; k < kLanes; ++k) {
    const std::byte* at = from + k * stride;
    __builtin_prefetch(at + kSquaresAhead * kLanes * stride, 0, kSecondCache);
    square[k] = k >= cols || rows <= 0 ? zero() : rows == kLanes ? load<kType>(at) : load_first<kType>(at, rows);
  }
  transpose(square);
}

/// The same tiles from a transposed matrix: `stride` bytes from one k to the next.
template <DType kType>
void pack_transposed(const std::byte* from, std::int64_t stride, std::int64_t rows, std::int64_t cols, std::int64_t n,
                     float* to) {
  constexpr std::int64_t kStride = kGroup<kType> / kLanes;  // from one lane's column to the next lane's
  const std::int64_t steps = steps_of<kType>(cols), padded = (rows + n - 1) / n * n;
  for (std::int64_t s = 0; s < steps; ++s) {
    const std::int64_t k = kType == kPairs ? s / 2 * kGroup<kType> + 1 - s % 2 : s * kLanes;
    const auto deep = static_cast<int>(smaller(kLanes, (cols - k + kStride - 1) / kStride));
    float* tile = to + s * n * kLanes;
    std::int64_t slot = 0;
    for (std::int64_t first = 0; first < padded; first += kLanes) {
      const auto here = static_cast<int>(smaller(kLanes, rows - first));
      Vec square[kLanes];
      load_square<kStored<kType>>(from + first * kSize<kType> + k * stride, kStride * stride, here, deep, square);
      for (std::int64_t i = 0; i < kLanes && first + i < padded; ++i) {
        store_f32(square[i], tile + slot * kLanes);
        if (++slot < n) continue;
        slot = 0;
        tile += steps * n * kLanes;
      }
    }
  }
}

}  // namespace
}  // namespace vitrine
