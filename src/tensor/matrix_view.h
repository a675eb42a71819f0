// A strided view of a stored matrix.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace vitrine {

/// Element (r, c) of `[rows, cols]` is `r * row_stride + c * col_stride` elements after `data`. A view does not own
/// memory. Strides can also express the transposed and fused tensors of files; products require col_stride == 1
/// (row-major) or row_stride == 1 (transposed). Rows in a block format have col_stride 1 and consist of whole blocks;
/// only columns at the beginning of a block have an address.
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
