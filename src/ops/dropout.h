// Dropout: y = x · factor, where factor is 0 with probability `rate`, else 1 / (1 − rate). dx = dy · factor.
// The factors are defined in pass/dropout.h; the backward recomputes them. Source: Srivastava et al. 2014.
#pragma once

#include "pass/pass.h"

namespace vitrine {

/// Returns x itself if `rate` is 0. The rate is that of the pass, unless the caller gives another.
Tensor dropout(Pass& p, const SiteId& at, const Tensor& x, float rate);
inline Tensor dropout(Pass& p, const SiteId& at, const Tensor& x) { return dropout(p, at, x, p.training.dropout.rate); }

}  // namespace vitrine
