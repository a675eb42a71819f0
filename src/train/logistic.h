// The logistic function and the logarithm of it, for losses: in float64, without overflow.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace vitrine {

/// −ln σ(x)
inline double softplus_of_minus(double x) { return std::max(-x, 0.0) + math::log(1 + math::exp(-std::abs(x))); }
/// σ(x) = 1 / (1 + exp(−x))
inline double sigmoid(double x) {
  const double e = math::exp(-std::abs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

}  // namespace vitrine
