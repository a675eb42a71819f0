// Which elements dropout zeroes, as a function of their place alone.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "pass/sites.h"

namespace vitrine {

/// The dropout of one pass. The place of an element is its site, the segment if the site has one, and its index in the
/// value. So the mask does not depend on threads, recompute or earlier draws.
struct Dropout {
  float rate = 0;  ///< The probability that an element is zeroed; the others are divided by 1 − rate.
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t micro_batch = 0;

  /// 0 or 1 / (1 − rate) for each element of the value at `at`.
  DropoutMask mask(const SiteId& at) const;
};

}  // namespace vitrine
