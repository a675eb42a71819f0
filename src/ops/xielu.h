// xIELU: an activation with two learned curvatures, one for each sign of its input.
//
//   y = a_p x² + βx                             x > 0         a_p = softplus(α_p)
//   y = a_n (expm1(min(x, ε)) − x) + βx         x ≤ 0         a_n = β + softplus(α_n)
//
//   dx = (2 a_p x + β) dy, or (a_n (exp(x) − 1) + β) dy, or for ε < x ≤ 0 (β − a_n) dy
//   dα_p = σ(α_p) Σ x² dy over x > 0            dα_n = σ(α_n) Σ (expm1(min(x, ε)) − x) dy over x ≤ 0
//
// Sums are over all elements, in double precision: a row after another. β and ε are constants of the checkpoint.
// Source: Huang & Schlag 2024.
#pragma once

#include "pass/pass.h"

namespace vitrine {

struct XieluParams {
  Param alpha_p, alpha_n, beta, eps;  ///< `[1]` each.
};

Tensor xielu(Pass& p, const Param& alpha_p, const Param& alpha_n, const Param& beta, const Param& eps, const Tensor& x);
inline Tensor xielu(Pass& p, const XieluParams& w, const Tensor& x) {
  return xielu(p, w.alpha_p, w.alpha_n, w.beta, w.eps, x);
}

}  // namespace vitrine
