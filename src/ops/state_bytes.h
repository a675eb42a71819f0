// The bytes of a state that a pass reads and writes.
#pragma once

#include <cstdint>

#include "pass/pass.h"

namespace vitrine {

/// Of a state of `n` elements of a layer: each segment with a cache writes it, and reads it unless the text begins.
inline double state_bytes(Pass& p, BlockSite at, std::int64_t n) {
  double times = 0;
  for (const Segment& s : p.segments_of(at.stack)) times += s.cache == nullptr ? 0 : s.position > 0 ? 2 : 1;
  return times * static_cast<double>(n) * sizeof(float);
}

}  // namespace vitrine
