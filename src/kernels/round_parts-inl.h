// Rounds rows to 8 bits, in parts of 32 elements, for the products with quantized matrices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "quant/parts-inl.h"

namespace vitrine {
namespace {

/// The smallest magnitude of a block that is not rounded to zero, so that 127 / magnitude is finite.
constexpr float kNegligible = 0x1p-100F;
/// 1.5 · 2^23: adding it rounds a number below 2^22 to the nearest integer, ties to even, which the lowest bits hold.
constexpr float kRounder = 12582912.0F;

/// Sets sums to −Σ q of elements 0 to 15 and 16 to 31.
void round_parts(const float* x, std::int64_t n, RoundedPart* to) {
  for (std::int64_t b = 0; b < n / kPart; ++b, x += kPart, ++to) {
    std::uint32_t largest = 0;
    for (int i = 0; i < kPart; ++i) {
      const std::uint32_t magnitude = __builtin_bit_cast(std::uint32_t, x[i]) & 0x7FFFFFFFU;
      largest = largest < magnitude ? magnitude : largest;
    }
    const float magnitude = __builtin_bit_cast(float, largest);
    const bool finite = largest < 0x7F800000U, rounds = finite && magnitude >= kNegligible;
    const float factor = rounds ? 127.0F / magnitude : 0.0F;
    to->scale = rounds ? magnitude / 127.0F : finite ? 0.0F : __builtin_nanf("");
    std::int32_t sums[2] = {0, 0};
    if (finite) {
      for (int half = 0; half < 2; ++half) {
        for (int i = 16 * half; i < 16 * half + 16; ++i) {
          const auto q = static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, x[i] * factor + kRounder) -
                                                   __builtin_bit_cast(std::uint32_t, kRounder));
          to->q[i] = static_cast<std::int8_t>(q);
          sums[half] -= q;
        }
      }
    } else {
      for (std::int8_t& q : to->q) q = 0;
    }
    for (int half = 0; half < 2; ++half) to->sums[half] = sums[half];
  }
}

/// Puts the elements of n / 32 parts into the order in which a format has their codes.
template <class Format>
void order_parts(std::int64_t n, RoundedPart* parts) {
  if constexpr (element_of_code<Format::kDType>(1) != 1) {
    for (std::int64_t b = 0; b < n / kPart; ++b) {
      std::int8_t q[kPart];
      for (int k = 0; k < kPart; ++k) q[k] = parts[b].q[element_of_code<Format::kDType>(k)];
      __builtin_memcpy(parts[b].q, q, sizeof q);
    }
  }
}

}  // namespace
}  // namespace vitrine
