// A stored matrix, seen as it lies in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace vitrine {

/// Element (r, c) of `[rows, cols]` lies `r * row_stride + c * col_stride` elements after `data`. A view owns nothing.
/// A transposed or fused tensor of a file is such a view with other strides; products need col_stride == 1 (row-major)
/// or row_stride == 1 (transposed). A row of blocks has col_stride 1 and begins and ends with a whole block; only
/// columns where a block begins have an address.
struct MatrixView {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 1;

  const std::byte* at(std::int64_t r, std::int64_t c) const {
    return data + bytes_of(dtype, r * row_stride + c * col_stride);
  }
  MatrixView row_range(std::int64_t first, std::int64_t count) const {
    return {at(first, 0), dtype, count, cols, row_stride, col_stride};
  }
  MatrixView col_range(std::int64_t first, std::int64_t count) const {
    return {at(0, first), dtype, rows, count, row_stride, col_stride};
  }
};

/// Floats `[rows, cols]`, rows `stride` apart.
inline MatrixView view_of(const float* data, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  return {reinterpret_cast<const std::byte*>(data), DType::f32, rows, cols, stride, 1};
}

}  // namespace vitrine
