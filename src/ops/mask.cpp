#include "ops/mask.h"

#include <algorithm>

namespace vitrine {

Positions Mask::visible(std::int64_t position, std::int64_t n_positions) const {
  const std::int64_t begin = window ? std::max<std::int64_t>(0, position - *window + 1) : 0;
  return {begin, kind == Kind::causal ? position + 1 : n_positions};
}

double Mask::count_visible(std::int64_t position, std::int64_t n, std::int64_t n_positions) const {
  // Queries before `full` see from position 0 on; each one after it sees one position less at the beginning.
  const std::int64_t full = window ? std::clamp(*window - position, std::int64_t{0}, n) : n;
  const auto sum_to = [](std::int64_t k) { return 0.5 * static_cast<double>(k) * static_cast<double>(k + 1); };
  const double ends = kind == Kind::causal ? sum_to(position + n) - sum_to(position)
                                           : static_cast<double>(n) * static_cast<double>(n_positions);
  if (full == n) return ends;
  const std::int64_t first = position + full - *window + 1, last = position + n - *window;
  return ends - (sum_to(last) - sum_to(first - 1));
}

}  // namespace vitrine
