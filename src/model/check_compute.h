// How the weights of a model are multiplied.
#pragma once

#include <string>

#include "model/model.h"
#include "pass/compute.h"

namespace vitrine {

/// Whether a weight has a block format.
bool has_blocks(const Model& model);
/// The numbers that most products with its weights multiply: "int8", "bf16" or "f32".
std::string products_name(const Model& model, Compute compute);
/// Throws Unsupported if `compute` is int8 and no weight is quantized, or bf16 and the model multiplies by a weight of
/// f16 or f32.
void check_compute(const Model& model, Compute compute);

}  // namespace vitrine
