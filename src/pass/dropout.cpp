#include "pass/dropout.h"

namespace vitrine {

DropoutMask Dropout::mask(const SiteId& at) const {
  const auto place = (static_cast<std::uint32_t>(at.layer + 1) << 8) | static_cast<std::uint32_t>(at.site);
  const auto pass = (micro_batch << 16) ^ static_cast<std::uint32_t>(at.segment + 1);
  return {.key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
          .counter = {step, pass, place},
          .limit = static_cast<std::uint32_t>(static_cast<double>(rate) * 0x1p32),
          .kept = 1.0f / (1.0f - rate)};
}

}  // namespace vitrine
