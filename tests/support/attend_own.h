// Attention over the keys and values of the pass itself.
#pragma once

#include "ops/attend.h"

namespace vitrine {

inline Tensor attend_own(Pass& p, BlockSite at, const AttendConfig& c, const Mask& mask, const Tensor& q,
                         const Tensor& k, const Tensor& v) {
  return attend(p, at, c, mask, q, k, v, key_sources(p, at, k, v));
}

}  // namespace vitrine
