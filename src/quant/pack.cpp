#include "quant/pack.h"

#include <cstring>

#include "base/error.h"

namespace vitrine {
namespace {

std::byte byte_of(unsigned value) { return static_cast<std::byte>(value & 0xFFU); }
void put_bits(std::byte* p, std::uint16_t half) { std::memcpy(p, &half, sizeof half); }

/// The low 4 bits of elements i and n + i in byte i.
void pack_4_bits(const std::uint8_t* codes, int n, std::byte* to) {
  for (int i = 0; i < n; ++i) to[i] = byte_of((codes[i] & 15U) | (codes[n + i] & 15U) << 4);
}

/// The fifth bits of 32 elements, one after another.
void pack_fifth_bits(const std::uint8_t* codes, std::byte* to) {
  for (int i = 0; i < 4; ++i) {
    unsigned bits = 0;
    for (int j = 0; j < 8; ++j) bits |= (codes[8 * i + j] >> 4U & 1U) << j;
    to[i] = byte_of(bits);
  }
}

/// The low 2 bits of 256 elements: element 32 k + i of each 128 from bit 2k of byte i.
void pack_2_bits(const std::uint8_t* codes, int shift, std::byte* to) {
  for (int half = 0; half < 2; ++half) {
    const std::uint8_t* const c = codes + 128 * half;
    for (int i = 0; i < 32; ++i) {
      const auto two = [&](int k) { return (static_cast<unsigned>(c[32 * k + i]) >> shift & 3U) << (2 * k); };
      to[32 * half + i] = byte_of(two(0) | two(1) | two(2) | two(3));
    }
  }
}

/// Bit `shift` of element 32 k + i in bit k of byte i.
void pack_bit(const std::uint8_t* codes, int shift, std::byte* to) {
  for (int i = 0; i < 32; ++i) {
    unsigned bits = 0;
    for (int k = 0; k < 8; ++k) bits |= (static_cast<unsigned>(codes[32 * k + i]) >> shift & 1U) << k;
    to[i] = byte_of(bits);
  }
}

/// The eight scales and minima of 6 bits of q4_k and q5_k.
void pack_six_bits(const BlockIntegers& from, std::byte* to) {
  for (int i = 0; i < 4; ++i) {
    const auto scale = [&](int k) { return static_cast<unsigned>(from.scales[k]); };
    const auto min = [&](int k) { return static_cast<unsigned>(from.mins[k]); };
    to[i] = byte_of((scale(i) & 63U) | scale(4 + i) >> 4 << 6);
    to[4 + i] = byte_of((min(i) & 63U) | min(4 + i) >> 4 << 6);
    to[8 + i] = byte_of((scale(4 + i) & 15U) | (min(4 + i) & 15U) << 4);
  }
}

/// 4 bits of 256 elements: in each 64, element i in the low half of byte i, element 32 + i in the high half.
void pack_pairs_of_parts(const std::uint8_t* codes, std::byte* to) {
  for (int i = 0; i < 4; ++i) pack_4_bits(codes + 64 * i, 32, to + 32 * i);
}

void pack_q3_k(const BlockIntegers& from, std::byte* block) {
  pack_bit(from.codes, 2, block);
  pack_2_bits(from.codes, 0, block + 32);
  std::byte* const scales = block + 96;
  const auto six = [&](int i) { return static_cast<unsigned>(from.scales[i] + 32); };
  for (int i = 0; i < 8; ++i) scales[i] = byte_of((six(i) & 15U) | (six(8 + i) & 15U) << 4);
  for (int i = 0; i < 4; ++i) {
    scales[8 + i] = byte_of(six(i) >> 4 | six(4 + i) >> 4 << 2 | six(8 + i) >> 4 << 4 | six(12 + i) >> 4 << 6);
  }
  put_bits(block + 108, from.d);
}

void pack_q6_k(const BlockIntegers& from, std::byte* block) {
  pack_4_bits(from.codes, 64, block);
  pack_4_bits(from.codes + 128, 64, block + 64);
  pack_2_bits(from.codes, 4, block + 128);
  for (int i = 0; i < 16; ++i) block[192 + i] = byte_of(static_cast<unsigned>(from.scales[i]));
  put_bits(block + 208, from.d);
}

void pack_iq4_xs(const BlockIntegers& from, std::byte* block) {
  put_bits(block, from.d);
  unsigned upper = 0;
  const auto six = [&](int i) { return static_cast<unsigned>(from.scales[i] + 32); };
  for (int i = 0; i < 8; ++i) upper |= six(i) >> 4 << (2 * i);
  put_bits(block + 2, static_cast<std::uint16_t>(upper));
  for (int i = 0; i < 4; ++i) block[4 + i] = byte_of((six(2 * i) & 15U) | (six(2 * i + 1) & 15U) << 4);
  for (int i = 0; i < 8; ++i) pack_4_bits(from.codes + 32 * i, 16, block + 8 + 16 * i);
}

}  // namespace

void pack_block(DType dtype, const BlockIntegers& from, std::byte* block) {
  switch (dtype) {
    case DType::q4_0:
    case DType::iq4_nl:
      put_bits(block, from.d);
      return pack_4_bits(from.codes, 16, block + 2);
    case DType::q5_0:
      put_bits(block, from.d);
      pack_fifth_bits(from.codes, block + 2);
      return pack_4_bits(from.codes, 16, block + 6);
    case DType::q4_1:
    case DType::q5_1:
      put_bits(block, from.d);
      put_bits(block + 2, from.d_min);
      if (dtype == DType::q5_1) pack_fifth_bits(from.codes, block + 4);
      return pack_4_bits(from.codes, 16, block + (dtype == DType::q5_1 ? 8 : 4));
    case DType::q2_k:
      for (int i = 0; i < 16; ++i) {
        block[i] = byte_of(static_cast<unsigned>(from.scales[i]) | static_cast<unsigned>(from.mins[i]) << 4);
      }
      pack_2_bits(from.codes, 0, block + 16);
      put_bits(block + 80, from.d);
      return put_bits(block + 82, from.d_min);
    case DType::q3_k:
      return pack_q3_k(from, block);
    case DType::q4_k:
    case DType::q5_k:
      put_bits(block, from.d);
      put_bits(block + 2, from.d_min);
      pack_six_bits(from, block + 4);
      if (dtype == DType::q5_k) pack_bit(from.codes, 4, block + 16);
      return pack_pairs_of_parts(from.codes, block + (dtype == DType::q5_k ? 48 : 16));
    case DType::q6_k:
      return pack_q6_k(from, block);
    case DType::iq4_xs:
      return pack_iq4_xs(from, block);
    default:
      throw InternalError("quant", "{} cannot be packed", name_of(dtype));
  }
}

}  // namespace vitrine
