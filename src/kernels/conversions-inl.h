// Conversions of rows of stored elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/stored-inl.h"

namespace vitrine {
namespace {

void widen(const std::byte* x, DType dtype, std::int64_t n, float* y) {
  with_type(dtype, [&](auto stored) {
    constexpr DType kType = decltype(stored)::kDType;
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store_f32(load<kType>(x + i * kSize<kType>), y + i);
    const int rest = static_cast<int>(n - i);
    if (rest > 0) store_f32_first(load_first<kType>(x + i * kSize<kType>, rest), y + i, rest);
  });
}

void widen_f8(const std::byte* x, std::int64_t n, const float* scales, std::int64_t block, std::int64_t first,
              float* y) {
  scales += first / block;
  std::int64_t i = 0, end = block - first % block;
  for (; i < n; end += block, ++scales) {
    const Vec scale = broadcast(0x1p8f * *scales);
    if (end > n) end = n;
    for (; i + kLanes <= end; i += kLanes) store_f32(load_f8(x + i) * scale, y + i);
    const int rest = static_cast<int>(end - i);
    if (rest > 0) store_f32_first(load_f8_first(x + i, rest) * scale, y + i, rest);
    i = end;
  }
}

void narrow(const float* x, std::int64_t n, DType dtype, std::byte* y) {
  with_type(dtype, [&](auto stored) {
    constexpr DType kType = decltype(stored)::kDType;
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store<kType>(load_f32(x + i), y + i * kSize<kType>);
    const int rest = static_cast<int>(n - i);
    if (rest > 0) store_first<kType>(load_f32_first(x + i, rest), y + i * kSize<kType>, rest);
  });
}

}  // namespace
}  // namespace vitrine
