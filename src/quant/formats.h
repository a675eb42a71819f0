// The functions of the table in block_format.cpp, and access to the bytes of a block.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

namespace vitrine {

bool quantize_q8_0(const float* x, std::byte* block);
bool quantize_q4_0(const float* x, std::byte* block);
bool quantize_mxfp4(const float* x, std::byte* block);

constexpr float kLargestHalf = 65504.0F;

// Access to the bytes of a block, which may be unaligned.

inline std::uint32_t word_at(const std::byte* p) {
  std::uint32_t word = 0;
  std::memcpy(&word, p, sizeof word);
  return word;
}
inline float half_at(const std::byte* p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, sizeof bits);
  return float_from_f16(bits);
}
inline std::byte byte_of(int value) { return static_cast<std::byte>(static_cast<unsigned>(value) & 0xFFU); }
inline void put_half(std::byte* p, float value) {
  const std::uint16_t bits = f16_from_float(value);
  std::memcpy(p, &bits, sizeof bits);
}

/// The element with the largest magnitude, the first of several; 0 if all are 0.
inline float extreme_of(const float* x, int n) {
  float extreme = 0;
  for (int i = 0; i < n; ++i) {
    if (std::abs(x[i]) > std::abs(extreme)) extreme = x[i];
  }
  return extreme;
}

}  // namespace vitrine
