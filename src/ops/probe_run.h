// The logits of a linear probe (pass/dictionary_sites.h): logits = x Wᵀ + b, where x [T, d_in] is the value of its
// site.
//
// They have no gradient, because nothing reads them. The bits of a row depend on the row alone.
#pragma once

#include "pass/pass.h"

namespace vitrine {

/// Passes the logits `[T, n]` of the rows of `value` to the taps. Throws BadInput if a tap replaces them.
void run_probe(Pass& p, const Dictionary& probe, const Tensor& value);

}  // namespace vitrine
