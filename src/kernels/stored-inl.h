// Vectors of stored elements: a load for each element type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace vitrine {
namespace {

/// A copy of size_of(dtype), because an inline function that the rest of the program shares must not be compiled here.
template <DType kType>
constexpr std::int64_t kSize = kType == DType::f32 ? 4 : 2;

/// The type, to templates, of bf16 elements whose products are added in the pair order. That order is the 16-lane order
/// of permuted columns: the odd columns of a group of 32, then its even ones.
constexpr DType kPairs = static_cast<DType>(0xFF);
template <DType kType>
constexpr DType kStored = kType == kPairs ? DType::bf16 : kType;
/// The number of columns that are permuted together, or of those that the lanes have at once.
template <DType kType>
constexpr int kGroup = kType == kPairs ? 2 * kLanes : kLanes;

template <DType kType>
Vec load(const std::byte* p) {
  if constexpr (kType == DType::f32) return load_f32(p);
  if constexpr (kType == DType::f16) return load_f16(p);
  if constexpr (kType == DType::bf16) return load_bf16(p);
}

template <DType kType>
Vec load_first(const std::byte* p, int count) {
  if constexpr (kType == DType::f32) return load_f32_first(p, count);
  if constexpr (kType == DType::f16) return load_f16_first(p, count);
  if constexpr (kType == DType::bf16) return load_bf16_first(p, count);
}

template <DType kType>
void store(Vec a, std::byte* p) {
  if constexpr (kType == DType::f32) store_f32(a, p);
  if constexpr (kType == DType::f16) store_f16(a, p);
  if constexpr (kType == DType::bf16) store_bf16(a, p);
}

template <DType kType>
void store_first(Vec a, std::byte* p, int count) {
  if constexpr (kType == DType::f32) store_f32_first(a, p, count);
  if constexpr (kType == DType::f16) store_f16_first(a, p, count);
  if constexpr (kType == DType::bf16) store_bf16_first(a, p, count);
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
    default:
      return;  // blocks have been dequantized before
  }
}

}  // namespace
}  // namespace vitrine
