// Rows of keys or of values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kv_type.h"
#include "tensor/matrix_view.h"

namespace vitrine {

/// Rows of keys or of values of one K/V head, `[rows, width]`.
struct KvRows {
  const std::byte* data = nullptr;
  KvType type = KvType::f32;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;  ///< Bytes from one row to the next.

  KvRows range(std::int64_t first, std::int64_t count) const {
    return {data + first * stride, type, count, width, stride};
  }
  /// The rows as a matrix, if their elements are not integers.
  MatrixView view() const {
    const DType dtype = dtype_of(type);
    return {data, dtype, rows, width, stride / size_of(dtype), 1};
  }
};

}  // namespace vitrine
