// Gaussian top-k: keeps of each row about the share that a normal distribution has above a number of standard
// deviations.
//
//   y = max(x − c, 0)          c = mean x + deviations · σ          σ = √(mean (x − mean x)²)
//
//   with u = dy where y > 0, else 0, and s = Σ u: dx = u − s · (1 + deviations · (x − mean x) / σ) / n
//
// x, y [T, n]. Source: You et al. 2025 (Spark Transformer); transformers, models/gemma3n.
#pragma once

#include "pass/pass.h"

namespace vitrine {

Tensor gaussian_topk(Pass& p, float deviations, const Tensor& x);

}  // namespace vitrine
