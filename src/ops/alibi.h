// ALiBi (attention with linear biases): the scores of a head fall with the distance of key and query, by a constant
// slope for each head. There are no other positions.
//
//   biased[h, t, s] = raw[h, t, s] − slope[h] · |t − s|
//   slope[h] = 2^(−max_bias · (h + 1) / n)               h < n, the largest power of two that is at most n_heads
//   slope[h] = 2^(−max_bias · (2 (h − n) + 1) / 2n)      the other heads: every second slope of 2n heads
//
// transformers adds slope · s (BLOOM) or slope · (s − S + 1) (MPT), which differs by a constant in each row: softmax
// is the same. Slopes have no gradient.
// Sources: Press et al. 2021; transformers, models/bloom and models/mpt.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fields.h"

namespace vitrine {

struct AlibiConfig {
  float max_bias = 8.0f;
  std::vector<float> slopes;  ///< `[n_heads]`, by make_alibi.

  bool operator==(const AlibiConfig&) const = default;
};

template <ConfigOf<AlibiConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"max_bias", "the last slope of a power of two of heads is 2 to the minus this"}, c.max_bias);
  visit(Field{"slopes", "computed from the others"}, c.slopes);
}

AlibiConfig make_alibi(std::int64_t n_heads, float max_bias = AlibiConfig().max_bias);

/// scores[i] −= slope · |distance + i|, where distance + i is the position of a key minus that of the query.
void add_alibi(float slope, std::int64_t distance, std::int64_t n, float* scores);

}  // namespace vitrine
