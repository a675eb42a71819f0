#include "ops/alibi.h"

#include <bit>
#include <cmath>

#include "base/math.h"

namespace vitrine {

AlibiConfig make_alibi(std::int64_t n_heads, float max_bias) {
  AlibiConfig c{max_bias, {}};
  const auto n = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n_heads)));
  const double step = static_cast<double>(max_bias) / static_cast<double>(n);
  for (std::int64_t h = 0; h < n_heads; ++h) {
    const double exponent = h < n ? static_cast<double>(h + 1) : static_cast<double>(h - n) + 0.5;
    c.slopes.push_back(static_cast<float>(math::pow(2.0, -step * exponent)));
  }
  return c;
}

void add_alibi(float slope, std::int64_t distance, std::int64_t n, float* scores) {
  const auto first = static_cast<float>(distance);
  for (int i = 0; i < static_cast<int>(n); ++i) scores[i] -= slope * std::abs(first + static_cast<float>(i));
}

}  // namespace vitrine
