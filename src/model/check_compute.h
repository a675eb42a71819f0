// Whether the weights of a model can be multiplied as `compute` says.
#pragma once

#include "model/model.h"
#include "pass/compute.h"

namespace vitrine {

/// Throws Unsupported if `compute` is bf16 and the model multiplies by a weight of f16 or f32.
void check_compute(const Model& model, Compute compute);

}  // namespace vitrine
