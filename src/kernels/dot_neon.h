// Products of codes and bytes in NEON, by widening multiplications.
#pragma once

#include "kernels/blocks_m128.h"

namespace vitrine {
namespace {

/// A product of a code below 256 and a byte from −127 to 127 has 16 bits.
template <int kBits>
[[gnu::always_inline]] inline Words add_products(Words sums, Words codes, Words x) {
  const uint8x16_t code = vreinterpretq_u8_u32(codes.v);
  const int8x16_t byte = vreinterpretq_s8_u32(x.v);
  const int16x8_t low = vmulq_s16(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(code))), vmovl_s8(vget_low_s8(byte)));
  const int16x8_t high = vmulq_s16(vreinterpretq_s16_u16(vmovl_high_u8(code)), vmovl_high_s8(byte));
  const int32x4_t of_four = vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
  return {vaddq_u32(sums.v, vreinterpretq_u32_s32(of_four))};
}

}  // namespace
}  // namespace vitrine
