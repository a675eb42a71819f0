// The operations of parts-inl.h on one row, whose words and floats are built-in numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "quant/formats.h"
#include "tensor/dtype.h"

namespace vitrine {
namespace {

inline float low_half(std::uint32_t word) { return float_from_f16(static_cast<std::uint16_t>(word & 0xFFFFU)); }
inline float high_half(std::uint32_t word) { return float_from_f16(static_cast<std::uint16_t>(word >> 16)); }
inline float to_floats(std::uint32_t word) { return static_cast<float>(static_cast<std::int32_t>(word)); }
/// The float with these bits.
inline float floats_of_bits(std::uint32_t word) { return std::bit_cast<float>(word); }
/// The entries of a table that the four bytes number.
inline std::uint32_t look_up(std::uint32_t bytes, const std::uint8_t (&table)[16]) {
  std::uint32_t out = 0;
  for (int i = 0; i < 32; i += 8) out |= std::uint32_t{table[(bytes >> i) & 0xFU]} << i;
  return out;
}
/// Two integers of 8 bits.
struct RowPair {
  float half[2];
};
inline RowPair byte_pair(std::uint32_t word, int first) {
  const auto byte = [&](int i) { return static_cast<float>(static_cast<std::int8_t>((word >> (8 * i)) & 0xFFU)); };
  return {{byte(first), byte(first + 1)}};
}

/// A block of one row, for read_parts().
struct RowBlock {
  using Words = std::uint32_t;
  using Floats = float;
  using Pair = RowPair;

  const std::byte* block;
  const std::byte* scale = nullptr;  ///< If it is stored apart.
  float zero = 0;                    ///< Of the group, without the format's offset.

  template <int n>
  void words(int at, Words (&to)[n]) const {
    for (int i = 0; i < n; ++i) to[i] = word_at(block + at + 4 * i);
  }
  Floats half(int at) const { return half_at(block + at); }
  Words exponent() const { return std::to_integer<Words>(*scale); }
  Floats group_scale() const { return floats_of_bits(word_at(scale)); }
  Floats group_min() const { return group_scale() * zero; }
};

}  // namespace
}  // namespace vitrine
