// Vectors of stored elements: a load for each element type, for the products, and conversions of whole rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace vitrine {
namespace {

/// A copy of size_of(dtype), because an inline function that the rest of the program shares must not be compiled here.
template <DType kType>
constexpr std::int64_t kSize = kType == DType::f32  ? 4
                               : kType == DType::i8 ? 1
                                                    : 2;

template <DType kType>
Vec load(const std::byte* p) {
  if constexpr (kType == DType::f32) return load_f32(p);
  if constexpr (kType == DType::f16) return load_f16(p);
  if constexpr (kType == DType::bf16) return load_bf16(p);
  if constexpr (kType == DType::i8) return load_i8(p);
}

template <DType kType>
Vec load_first(const std::byte* p, int count) {
  if constexpr (kType == DType::f32) return load_f32_first(p, count);
  if constexpr (kType == DType::f16) return load_f16_first(p, count);
  if constexpr (kType == DType::bf16) return load_bf16_first(p, count);
  if constexpr (kType == DType::i8) return load_i8_first(p, count);
}

template <DType kType>
void store(Vec a, std::byte* p) {
  if constexpr (kType == DType::f32) store_f32(a, p);
  if constexpr (kType == DType::f16) store_f16(a, p);
  if constexpr (kType == DType::bf16) store_bf16(a, p);
  if constexpr (kType == DType::i8) store_i8(a, p);
}

template <DType kType>
void store_first(Vec a, std::byte* p, int count) {
  if constexpr (kType == DType::f32) store_f32_first(a, p, count);
  if constexpr (kType == DType::f16) store_f16_first(a, p, count);
  if constexpr (kType == DType::bf16) store_bf16_first(a, p, count);
  if constexpr (kType == DType::i8) store_i8_first(a, p, count);
}

/// An element type as an argument, so that a generic lambda can be called with it.
template <DType kType>
struct Stored {
  static constexpr DType kDType = kType;
};

/// function(Stored<dtype>{})
template <class Function>
void with_type(DType dtype, Function function) {
  switch (dtype) {
    case DType::f32:
      return function(Stored<DType::f32>{});
    case DType::f16:
      return function(Stored<DType::f16>{});
    case DType::bf16:
      return function(Stored<DType::bf16>{});
    case DType::i8:
      return function(Stored<DType::i8>{});
    default:
      return;  // blocks have been dequantized before
  }
}

void widen(const std::byte* x, DType dtype, std::int64_t n, float* y) {
  with_type(dtype, [&](auto stored) {
    constexpr DType kType = decltype(stored)::kDType;
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store_f32(load<kType>(x + i * kSize<kType>), y + i);
    const int rest = static_cast<int>(n - i);
    if (rest > 0) store_f32_first(load_first<kType>(x + i * kSize<kType>, rest), y + i, rest);
  });
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
