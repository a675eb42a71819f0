#include "pass/dropout.h"

#include <algorithm>

#include "base/rng.h"

namespace vitrine {

void Dropout::factors(const SiteId& at, std::int64_t first, std::int64_t n, float* to) const {
  const auto key = std::array{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  const auto place = (static_cast<std::uint32_t>(at.layer + 1) << 8) | static_cast<std::uint32_t>(at.site);
  const auto pass = (micro_batch << 16) ^ static_cast<std::uint32_t>(at.segment + 1);
  const auto limit = static_cast<std::uint64_t>(static_cast<double>(rate) * 0x1p32);
  const float kept = 1.0f / (1.0f - rate);
  for (std::int64_t block = first / 4; block * 4 < first + n; ++block) {
    const auto bits = philox({static_cast<std::uint32_t>(block), step, pass, place}, key);
    for (std::int64_t i = std::max(block * 4, first); i < std::min(block * 4 + 4, first + n); ++i) {
      to[i - first] = bits[static_cast<std::size_t>(i % 4)] < limit ? 0.0f : kept;
    }
  }
}

}  // namespace vitrine
