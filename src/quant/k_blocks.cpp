// Blocks of 256 elements: one half-precision scale for the block and small integer scales for parts of 16 or 32.
//
// In the layouts below, "half d" is a half-precision number, and the low and high halves of a byte are its bits 0 to 3
// and 4 to 7.
#include "quant/formats.h"

namespace vitrine {
namespace {

constexpr int kParts = 8;  // of 32 elements

/// The scale and minimum of a part of q4_k or q5_k.
struct ScaleAndMin {
  float scale, min;
};

/// q4_k and q5_k store eight scales and eight minima of 6 bits in 12 bytes. Parts 0 to 3: the low 6 bits of bytes 0 to
/// 3 (scales) and 4 to 7 (minima). Parts 4 to 7: the low 4 bits are in the low (scales) and high (minima) halves of
/// bytes 8 to 11, the upper 2 bits in bits 6 and 7 of the bytes of part − 4.
ScaleAndMin scale_and_min(const std::byte* block, int part) {
  const float d = half_at(block), d_min = half_at(block + 2);
  const std::byte* const s = block + 4;
  int scale = byte_at(s, part) & 63, min = byte_at(s, part + 4) & 63;
  if (part >= 4) {
    scale = (byte_at(s, part + 4) & 15) | (byte_at(s, part - 4) >> 6) << 4;
    min = (byte_at(s, part + 4) >> 4) | (byte_at(s, part) >> 6) << 4;
  }
  return {d * static_cast<float>(scale), d_min * static_cast<float>(min)};
}

/// q3_k stores 16 scales of 6 bits, plus 32, in 12 bytes: the low 4 bits of scales 0 to 7 and 8 to 15 in the low and
/// high halves of bytes 0 to 7; the upper 2 bits of scale i from bit 2 (i / 4) of byte 8 + i mod 4.
int q3_k_scale(const std::byte* scales, int i) {
  const int low = i < 8 ? byte_at(scales, i) & 15 : byte_at(scales, i - 8) >> 4;
  const int high = (byte_at(scales, 8 + i % 4) >> (2 * (i / 4))) & 3;
  return (low | high << 4) - 32;
}

}  // namespace

// q2_k, 84 bytes: 16 bytes, each with the scale (low half) and minimum (high half) of 16 elements; 64 bytes, 32 for
// each 128 elements: element 32 k + i from bit 2k of byte i; half d, half d_min.     y = d scale q − d_min min
void dequantize_q2_k(const std::byte* block, float* y) {
  const float d = half_at(block + 80), d_min = half_at(block + 82);
  for (int part = 0; part < 16; ++part) {
    const float scale = d * static_cast<float>(byte_at(block, part) & 15);
    const float min = d_min * static_cast<float>(byte_at(block, part) >> 4);
    const std::byte* const q = block + 16 + part / 8 * 32 + part % 2 * 16;
    const int shift = part % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) y[16 * part + i] = scale * static_cast<float>((byte_at(q, i) >> shift) & 3) - min;
  }
}

// q3_k, 110 bytes: 32 bytes h with the third bit of element 32 k + i in bit k of byte i; 64 bytes as in q2_k; 12 bytes
// of scales; half d.     y = d scale (q + 4 h − 4)
void dequantize_q3_k(const std::byte* block, float* y) {
  const float d = half_at(block + 108);
  for (int part = 0; part < 16; ++part) {
    const float scale = d * static_cast<float>(q3_k_scale(block + 96, part));
    const std::byte* const q = block + 32 + part / 8 * 32 + part % 2 * 16;
    const std::byte* const h = block + part % 2 * 16;
    const int shift = part % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) {
      const int third = (byte_at(h, i) >> (part / 2)) & 1;
      y[16 * part + i] = scale * static_cast<float>(((byte_at(q, i) >> shift) & 3) + 4 * third - 4);
    }
  }
}

// q4_k, 144 bytes: half d, half d_min, 12 bytes of scales and minima, 128 bytes, 32 for each 64 elements: element i in
// the low half of byte i, element 32 + i in the high half.     y = d scale q − d_min min
void dequantize_q4_k(const std::byte* block, float* y) {
  for (int part = 0; part < kParts; ++part) {
    const ScaleAndMin s = scale_and_min(block, part);
    const std::byte* const q = block + 16 + part / 2 * 32;
    const int shift = part % 2 * 4;
    for (int i = 0; i < 32; ++i) y[32 * part + i] = s.scale * static_cast<float>((byte_at(q, i) >> shift) & 15) - s.min;
  }
}

// q5_k, 176 bytes: as q4_k, with 32 bytes h before the 128 bytes: the fifth bit of element 32 k + i in bit k of byte i.
void dequantize_q5_k(const std::byte* block, float* y) {
  const std::byte* const h = block + 16;
  for (int part = 0; part < kParts; ++part) {
    const ScaleAndMin s = scale_and_min(block, part);
    const std::byte* const q = block + 48 + part / 2 * 32;
    const int shift = part % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      const int fifth = (byte_at(h, i) >> part) & 1;
      y[32 * part + i] = s.scale * static_cast<float>(((byte_at(q, i) >> shift) & 15) + 16 * fifth) - s.min;
    }
  }
}

// q6_k, 210 bytes: 64 bytes for each 128 elements: element i in the low half of byte i, element 64 + i in the high
// half; 32 bytes h for each 128 elements: bits 4 and 5 of element 32 k + i from bit 2k of byte i; 16 signed scales, one
// for each 16 elements; half d.     y = d scale (q − 32)
void dequantize_q6_k(const std::byte* block, float* y) {
  const float d = half_at(block + 208);
  for (int part = 0; part < 16; ++part) {
    const float scale = d * static_cast<float>(signed_at(block, 192 + part));
    const int in_half = part % 8 * 16;  // the first element of the part within its 128 elements
    const std::byte* const q = block + part / 8 * 64 + in_half % 64;
    const std::byte* const h = block + 128 + part / 8 * 32 + in_half % 32;
    const int low_shift = in_half / 64 * 4, high_shift = in_half / 32 * 2;
    for (int i = 0; i < 16; ++i) {
      const int value = ((byte_at(q, i) >> low_shift) & 15) | ((byte_at(h, i) >> high_shift) & 3) << 4;
      y[16 * part + i] = scale * static_cast<float>(value - 32);
    }
  }
}

}  // namespace vitrine
