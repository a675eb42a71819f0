// Random parameters to begin with. Each element is a function of (seed, parameter, place), so it does not matter who
// draws it, in which order, or on how many threads.
//
//   norms                    gain 1 (stored as 1 − weight_offset), shift 0; all biases 0
//   positions are learned    every matrix σ = 0.02, those that write into the stream σ = 0.02 / √(2 · n_layers)
//                            (Radford et al. 2019)
//   otherwise                matrices σ = √(2 / (in + out)), cut at ±3σ (Glorot & Bengio 2010); the embedding σ = 1 / s
//                            where it is scaled by s, 0.02 where it is tied and not scaled, else 1, cut at ±3σ
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/config.h"
#include "tensor/tensor.h"

namespace vitrine {

/// Normal with mean and standard deviation `std`, none further from the mean than cut · std (0: no bound).
struct InitRule {
  double mean = 0;
  double std = 0;
  double cut = 0;
};

/// The rule for the parameter of that name and shape in for_each_param's list.
InitRule init_rule(const ModelConfig& config, std::string_view name, const Shape& shape);

/// Elements [first, first + out.size()) of parameter number `param`. A value that is cut is one drawn again, not
/// clamped: the quantile of a uniform number between the bounds' probabilities.
void draw_initial(const InitRule& rule, std::uint64_t seed, std::uint64_t param, std::int64_t first,
                  std::span<float> out);

}  // namespace vitrine
