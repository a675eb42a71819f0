// Which elements dropout zeroes, as a function of the seed, the step, the micro-batch and their place.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "pass/sites.h"

namespace vitrine {

/// The dropout of one pass. The place of an element is its site, the segment if the site has one, and its index in the
/// value. So the mask does not depend on threads, recompute or earlier draws.
struct Dropout {
  float rate = 0;  ///< The probability that an element is zeroed; the others are divided by 1 − rate.
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t micro_batch = 0;

  /// 0 or 1 / (1 − rate) for each element of the value at `at`.
  DropoutMask mask(const SiteId& at) const {
    const auto stack = (static_cast<std::uint32_t>(at.stack) << 1) | static_cast<std::uint32_t>(at.cross);
    const auto layer = static_cast<std::uint32_t>(at.layer + 1);
    const auto place = (stack << 24) ^ (layer << 8) ^ info(at.site).dropout;
    const auto pass = (micro_batch << 16) ^ static_cast<std::uint32_t>(at.segment + 1);
    return {.key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
            .counter = {step, pass, place},
            .limit = static_cast<std::uint32_t>(static_cast<double>(rate) * 0x1p32),
            .kept = 1.0f / (1.0f - rate)};
  }
};

}  // namespace vitrine
