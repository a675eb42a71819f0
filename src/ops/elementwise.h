// Sums, products and curves, element by element.
#pragma once

#include "pass/pass.h"

namespace vitrine {

/// a + b, of the same shape.
Tensor add(Pass& p, const Tensor& a, const Tensor& b);
/// act(x)
Tensor activate(Pass& p, Activation activation, const Tensor& x);
/// act(gate) · up: a gated linear unit (Shazeer 2020). The activated gate is rounded before the product.
Tensor gated(Pass& p, Activation activation, const Tensor& gate, const Tensor& up);
/// cap · tanh(x / cap) (Gemma Team 2024, section 2).
Tensor softcap(Pass& p, float cap, const Tensor& x);

}  // namespace vitrine
