// A strided view of a stored matrix.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace vitrine {

/// What codes in groups mean: element = scale · (code − zero), or scale · values[code]. Codes of int8 are counted from
/// −128 on: its bytes are signed.
struct GroupTables {
  const std::uint8_t* zeros = nullptr;   ///< One for each scale; null: 2^(bits − 1).
  const float* values = nullptr;         ///< Of nf4 and fp4: 16.
  const std::int32_t* places = nullptr;  ///< Where the row stores each column of the matrix; null: in order.
};

/// The scales of f8_e4m3 and codes in groups (aligned floats) or mxfp4_pairs (exponents of 8 bits, each for 32 elements
/// of a row), one for each block of a matrix. Blocks at the ends may be smaller.
struct BlockScales {
  const std::byte* data = nullptr;
  std::int64_t block_rows = 1, block_cols = 1;  ///< Elements.
  std::int64_t row_stride = 0, col_stride = 1;  ///< From one block to the next, in scales.
  std::int64_t first_row = 0, first_col = 0;    ///< The place of the view's first element in that matrix.
  const GroupTables* groups = nullptr;          ///< Of codes in groups. Blocks count the columns as they are stored.

  /// Which scale element (r, c) of the view has.
  std::int64_t index(std::int64_t r, std::int64_t c) const {
    return (first_row + r) / block_rows * row_stride + (first_col + c) / block_cols * col_stride;
  }
  BlockScales moved(std::int64_t rows, std::int64_t cols) const {
    return {data, block_rows, block_cols, row_stride, col_stride, first_row + rows, first_col + cols, groups};
  }
  BlockScales transposed() const {
    return {data, block_cols, block_rows, col_stride, row_stride, first_col, first_row, groups};
  }
};

/// Element (r, c) of `[rows, cols]` is `r * row_stride + c * col_stride` elements after `data`. A view does not own
/// memory. Strides can also express the transposed and fused tensors of files; products require col_stride == 1
/// (row-major) or row_stride == 1 (transposed). Rows in a block format have col_stride 1 and consist of whole blocks;
/// only columns at the beginning of a block have an address. Rows of codes in groups may end within a block.
struct MatrixView {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 1;
  BlockScales scales{};  ///< No data: the type has none that are stored apart.

  const std::byte* at(std::int64_t r, std::int64_t c) const {
    return data + bytes_of(dtype, r * row_stride + c * col_stride);
  }
  MatrixView row_range(std::int64_t first, std::int64_t count) const {
    return {at(first, 0), dtype, count, cols, row_stride, col_stride, scales.moved(first, 0)};
  }
  MatrixView col_range(std::int64_t first, std::int64_t count) const {
    return {at(0, first), dtype, rows, count, row_stride, col_stride, scales.moved(0, first)};
  }
};

/// Floats `[rows, cols]`, rows `stride` apart.
inline MatrixView view_of(const float* data, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  return {reinterpret_cast<const std::byte*>(data), DType::f32, rows, cols, stride, 1};
}

}  // namespace vitrine
