#include "pass/adapter.h"

#include <atomic>
#include <cmath>

namespace vitrine {

std::uint64_t new_identity() {
  static std::atomic<std::uint64_t> next = 0;
  return next.fetch_add(1, std::memory_order_relaxed);
}

double Magnitudes::norm(std::size_t row, double s) const {
  return std::sqrt(squares[row] + 2 * s * products[row] + s * s * added_squares[row]);
}

std::vector<float> Magnitudes::factors(const float* m, double s) const {
  std::vector<float> result(squares.size());
  for (std::size_t row = 0; row < result.size(); ++row) {
    result[row] = static_cast<float>(static_cast<double>(m[row]) / norm(row, s));
  }
  return result;
}

}  // namespace vitrine
