// Selects the elements that dropout drops: sixteen blocks of Philox at a time.
#pragma once

#include "kernels/kernels.h"
#include "kernels/product-inl.h"

namespace vitrine {
namespace {

/// Philox4x32-10, as in base/rng.h, of the counters (first + lane, then the words of the mask). Writes 4 kLanes
/// factors: that of word i of block l at 4 l + i.
void draw_factors(const DropoutMask& mask, std::uint32_t first, float* to) {
  std::uint32_t blocks[kLanes];
  for (std::uint32_t l = 0; l < kLanes; ++l) blocks[l] = first + l;
  Words c[4] = {load_words(blocks), broadcast_word(mask.counter[0]), broadcast_word(mask.counter[1]),
                broadcast_word(mask.counter[2])};
  std::uint32_t key[2] = {mask.key[0], mask.key[1]};
  for (int round = 0; round < 10; ++round) {
    Words a_upper, a_lower, b_upper, b_lower;
    multiply_words(c[0], 0xD2511F53, a_upper, a_lower);
    multiply_words(c[2], 0xCD9E8D57, b_upper, b_lower);
    c[0] = b_upper ^ c[1] ^ broadcast_word(key[0]);
    c[1] = b_lower;
    c[2] = a_upper ^ c[3] ^ broadcast_word(key[1]);
    c[3] = a_lower;
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  float factors[4][kLanes];
  for (int i = 0; i < 4; ++i) {
    store_f32(select(less(c[i], mask.limit), zero(), broadcast(mask.kept)), factors[i]);
  }
  for (int l = 0; l < kLanes; ++l) {
    for (int i = 0; i < 4; ++i) to[4 * l + i] = factors[i][l];
  }
}

void dropout_factors(const DropoutMask& mask, std::int64_t first, std::int64_t n, float* to) {
  constexpr std::int64_t kDrawn = 4 * kLanes;
  float drawn[kDrawn];
  for (std::int64_t i = -(first % 4); i < n; i += kDrawn) {
    draw_factors(mask, static_cast<std::uint32_t>((first + i) / 4), drawn);
    const std::int64_t end = smaller(i + kDrawn, n);
    for (std::int64_t k = larger(i, 0); k < end; ++k) to[k] = drawn[k - i];
  }
}

}  // namespace
}  // namespace vitrine
