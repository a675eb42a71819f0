// Dropout: which elements are left out, as a function of where they stand and nothing else.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "pass/sites.h"

namespace vitrine {

/// The mask of one pass. An element's place is its site, the segment where the site has one, and its index in the value
/// there, so the mask does not depend on threads, on recompute, or on what was drawn before.
struct Dropout {
  float rate = 0;  ///< Probability that an element becomes 0; the others are divided by 1 − rate.
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t micro_batch = 0;

  /// Of the value at `at`: 0 or 1 / (1 − rate) for each element.
  DropoutMask mask(const SiteId& at) const;
};

}  // namespace vitrine
