// The operations of parts-inl.h on one row, whose words and floats are built-in numbers.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace vitrine {
namespace {

inline float low_half(std::uint32_t word) { return float_from_f16(static_cast<std::uint16_t>(word & 0xFFFFU)); }
inline float high_half(std::uint32_t word) { return float_from_f16(static_cast<std::uint16_t>(word >> 16)); }
inline float to_floats(std::uint32_t word) { return static_cast<float>(static_cast<std::int32_t>(word)); }
inline std::uint32_t sign_extended(std::uint32_t word) {
  return static_cast<std::uint32_t>(static_cast<std::int8_t>(word & 0xFFU));
}

}  // namespace
}  // namespace vitrine
