// Exponentials of logits, several at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/math.h"

namespace vitrine {

/// Calls visit(x, exp(x)) for x = logit − `shift` of every logit, in order.
template <class Visit>
void each_exp(std::span<const float> logits, double shift, Visit visit) {
  constexpr std::size_t kTogether = 256;
  double x[kTogether], e[kTogether];
  for (std::size_t first = 0; first < logits.size(); first += kTogether) {
    const std::size_t n = std::min(kTogether, logits.size() - first);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<double>(logits[first + i]) - shift;
    math::exp({x, n}, e);
    for (std::size_t i = 0; i < n; ++i) visit(x[i], e[i]);
  }
}

}  // namespace vitrine
