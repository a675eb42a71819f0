#include "pass/adapter.h"

#include <cmath>

namespace vitrine {

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
