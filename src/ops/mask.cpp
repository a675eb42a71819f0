#include "ops/mask.h"

#include <algorithm>

namespace vitrine {
namespace {

/// Σ min(position + i + 1, most) over i in [0, n): the positions up to each query's own, `most` of them at most.
double count_back(std::int64_t position, std::int64_t n, std::int64_t most) {
  const auto sum_to = [](std::int64_t k) { return 0.5 * static_cast<double>(k) * static_cast<double>(k + 1); };
  const std::int64_t growing = std::clamp(most - position, std::int64_t{0}, n);
  return sum_to(position + growing) - sum_to(position) + static_cast<double>(n - growing) * static_cast<double>(most);
}

/// Σ (position mod size + 1) over the first n positions.
double count_in_chunks(std::int64_t n, std::int64_t size) {
  const auto sum_to = [](std::int64_t k) { return 0.5 * static_cast<double>(k) * static_cast<double>(k + 1); };
  return static_cast<double>(n / size) * sum_to(size) + sum_to(n % size);
}

}  // namespace

double Mask::count_visible(std::int64_t position, std::int64_t n, std::int64_t n_positions) const {
  if (kind == Kind::full && !window) return static_cast<double>(n) * static_cast<double>(n_positions);
  if (chunked && window) return count_in_chunks(position + n, *window) - count_in_chunks(position, *window);
  const std::int64_t most = window.value_or(position + n);
  const double back = count_back(position, n, most);
  if (kind == Kind::causal) return back;
  // The positions after a query are those before its mirror image.
  return back + count_back(n_positions - position - n, n, most) - static_cast<double>(n);
}

}  // namespace vitrine
