// Dropout: y = x · factor, where factor is 0 with probability `rate`, else 1 / (1 − rate). dx = dy · factor.
// Source: Srivastava et al. 2014. The factors are those of pass/dropout.h, drawn again for the backward.
#pragma once

#include "pass/pass.h"

namespace vitrine {

/// x itself where the pass has no dropout.
Tensor dropout(Pass& p, const SiteId& at, const Tensor& x);

}  // namespace vitrine
