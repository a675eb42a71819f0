// Dropout: which elements are left out, as a function of where they stand and nothing else.
#pragma once

#include <cstdint>

#include "pass/sites.h"

namespace vitrine {

/// The mask of one pass. An element's place is its site, the segment where the site has one, and its index in the value
/// there, so the mask does not depend on threads, on recompute, or on what was drawn before.
struct Dropout {
  float rate = 0;  ///< Probability that an element becomes 0; the others are divided by 1 − rate.
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t micro_batch = 0;

  /// to[i] = 0 or 1 / (1 − rate) for elements [first, first + n) of the value at `at`.
  void factors(const SiteId& at, std::int64_t first, std::int64_t n, float* to) const;
};

}  // namespace vitrine
