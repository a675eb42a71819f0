// What directions of the residual stream add to the logits, without the final norm: products with the unembedding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/context.h"
#include "pass/dictionary.h"

namespace vitrine {

struct LogitWeight {
  std::int32_t id = 0;
  float weight = 0;  ///< direction · the token's row of the unembedding
};

/// The tokens with the largest weights, by falling weight, and those with the smallest, by rising weight; then by id.
struct ExtremeLogits {
  std::vector<LogitWeight> top, bottom;
};

/// For each direction `[d]`, k tokens of both kinds, or as many as the vocabulary has. Throws Interrupted.
std::vector<ExtremeLogits> extreme_logits(const GenerateContext& context,
                                          std::span<const std::vector<float>> directions, std::size_t k);

/// What one unit of a feature adds to the site: its row of the decoder, with its factor.
std::vector<float> direction_of(const Dictionary& dictionary, std::int64_t feature);

/// Whether what a feature adds to the site has the coordinates of the stream, [T, d]. Values of heads do not, even
/// where they are as wide.
bool is_in_stream(const Model& model, const Dictionary& dictionary);

}  // namespace vitrine
