// The operations of parts-inl.h on one row, whose words and floats are built-in numbers.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace vitrine {
namespace {

inline float low_half(std::uint32_t word) { return float_from_f16(static_cast<std::uint16_t>(word & 0xFFFFU)); }
inline float high_half(std::uint32_t word) { return float_from_f16(static_cast<std::uint16_t>(word >> 16)); }
inline float to_floats(std::uint32_t word) { return static_cast<float>(static_cast<std::int32_t>(word)); }
/// Two integers of 8 bits.
struct RowPair {
  float half[2];
};
inline RowPair byte_pair(std::uint32_t word, int first) {
  const auto byte = [&](int i) { return static_cast<float>(static_cast<std::int8_t>((word >> (8 * i)) & 0xFFU)); };
  return {{byte(first), byte(first + 1)}};
}

}  // namespace
}  // namespace vitrine
