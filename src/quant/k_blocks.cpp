// Blocks of 256 elements: one scale in half precision for all, and small integer scales for parts of 16 or 32.
#include <array>

#include "quant/formats.h"

namespace vitrine {
namespace {

constexpr int kParts = 8;  // of 32 elements

/// What a part of q4_k or q5_k is scaled by.
struct ScaleAndMin {
  float scale, min;
};

/// q4_k and q5_k keep eight scales and eight minima of 6 bits in 12 bytes: parts 0 to 3 have theirs in the low 6 bits
/// of bytes 0 to 3 and 4 to 7; parts 4 to 7 have the low 4 bits in the two halves of bytes 8 to 11, the upper 2 above
/// those of part − 4.
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

/// q3_k's 16 scales of 6 bits in 12 bytes: the low 4 bits of scales 0 to 7 and 8 to 15 in the halves of bytes 0 to 7,
/// the upper 2 bits of scale i in byte 8 + i mod 4, 2 (i / 4) bits up. Stored plus 32.
int q3_k_scale(const std::byte* scales, int i) {
  const int low = i < 8 ? byte_at(scales, i) & 15 : byte_at(scales, i - 8) >> 4;
  const int high = (byte_at(scales, 8 + i % 4) >> (2 * (i / 4))) & 3;
  return (low | high << 4) - 32;
}

}  // namespace

// q2_k, 84 bytes: 16 bytes, scale and minimum of each 16 elements in the halves; 64 bytes with four elements each: of
// 128 elements, element 32 k + i in bits 2k of byte i; half d, half d_min.     y = d scale q − d_min min
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

// q3_k, 110 bytes: 32 bytes h, the third bit of element 32 k + i in bit k of byte i; 64 bytes as in q2_k; 12 bytes of
// scales; half d.     y = d scale (q + 4 h − 4)
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

// q4_k, 144 bytes: half d, half d_min, 12 bytes of scales and minima, 128 bytes: of 64 elements, element i in the low
// half of byte i, element 32 + i in the high one.     y = d scale q − d_min min
void dequantize_q4_k(const std::byte* block, float* y) {
  for (int part = 0; part < kParts; ++part) {
    const ScaleAndMin s = scale_and_min(block, part);
    const std::byte* const q = block + 16 + part / 2 * 32;
    const int shift = part % 2 * 4;
    for (int i = 0; i < 32; ++i) y[32 * part + i] = s.scale * static_cast<float>((byte_at(q, i) >> shift) & 15) - s.min;
  }
}

// q5_k, 176 bytes: as q4_k with 32 bytes h before the elements: the fifth bit of element 32 k + i in bit k of byte i.
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

// q6_k, 210 bytes: of 128 elements 64 bytes, element i in the low half of byte i mod 64, element 64 + i in the high
// one; then for both 128 their 32 bytes h: bits 4 and 5 of element 32 k + i in bits 2k of byte i; 16 signed scales, one
// for 16 elements; half d.     y = d scale (q − 32)
void dequantize_q6_k(const std::byte* block, float* y) {
  const float d = half_at(block + 208);
  for (int part = 0; part < 16; ++part) {
    const float scale = d * static_cast<float>(signed_at(block, 192 + part));
    const int in_half = part % 8 * 16;  // the part's first element of its 128
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
