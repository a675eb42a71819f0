// What directions of the residual stream add to the logits, without the final norm: products with the unembedding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model.h"

namespace vitrine {

struct LogitWeight {
  std::int32_t id = 0;
  float weight = 0;  ///< direction · the token's row of the unembedding
};

/// For each direction `[d]`, the k tokens with the largest weights: by falling weight, then by id.
std::vector<std::vector<LogitWeight>> largest_logit_weights(const Model& model, ThreadPool& pool,
                                                            const Kernels& kernels,
                                                            std::span<const std::vector<float>> directions,
                                                            std::size_t k);

}  // namespace vitrine
