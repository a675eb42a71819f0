// L2 normalization of a vector, as of sentence-transformers' Normalize and torch's normalize (eps 1e-12).
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace vitrine {

/// Divides a vector by its length, unless it is 0. The sum of squares is in float64, in ascending order.
inline void divide_by_length(std::span<float> vector) {
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * static_cast<double>(x);
  const double length = squares > 0 ? std::max(std::sqrt(squares), 1e-12) : 1;
  for (float& x : vector) x = static_cast<float>(static_cast<double>(x) / length);
}

}  // namespace vitrine
