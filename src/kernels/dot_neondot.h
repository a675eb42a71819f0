// Products of codes and bytes with SDOT (FEAT_DotProd).
#pragma once

#include "kernels/blocks_m128.h"

namespace vitrine {
namespace {

/// SDOT reads codes as signed. Those of 8 bits become code − 128 by a flipped bit, and 128 Σ x is added: −128 times the
/// bytes is subtracted.
template <int kBits>
[[gnu::always_inline]] inline Words add_products(Words sums, Words codes, Words x) {
  const int32x4_t before = vreinterpretq_s32_u32(sums.v);
  const int8x16_t byte = vreinterpretq_s8_u32(x.v);
  if constexpr (kBits < 8) return {vreinterpretq_u32_s32(vdotq_s32(before, vreinterpretq_s8_u32(codes.v), byte))};
  const int8x16_t code = vreinterpretq_s8_u32((codes ^ 0x80808080U).v);
  const int32x4_t minus = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(-128), byte);
  return {vreinterpretq_u32_s32(vsubq_s32(vdotq_s32(before, code, byte), minus))};
}

}  // namespace
}  // namespace vitrine
