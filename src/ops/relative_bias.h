// Relative position bias: a learned number for each head and distance, which is added to the scores of attention.
//
//   bias[h, s − t] = table[bucket(s − t), h]        t the position of the query, s that of the key
//   dtable[b, h]  += Σ dbias[h, distance] over the distances of bucket b
//
// Half of the buckets hold one distance each. The others are logarithmically wider up to max_distance; the last bucket
// holds all distances from there on. In both directions, half of the buckets are for later keys; in a causal stack
// later keys, which are masked, share the bucket of distance 0. The logarithm is float32, as in the reference.
// Sources: Raffel et al. 2019, "T5"; transformers, models/t5/modeling_t5.py, T5Attention._relative_position_bucket.
#pragma once

#include "base/fields.h"
#include "pass/pass.h"

namespace vitrine {

struct RelativeBiasConfig {
  std::int64_t n_buckets = 32;
  std::int64_t max_distance = 128;
  bool bidirectional = false;

  bool operator==(const RelativeBiasConfig&) const = default;
};

template <ConfigOf<RelativeBiasConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"buckets", "of distances"}, c.n_buckets);
  visit(Field{"max_distance", "from which all distances share a bucket"}, c.max_distance);
  visit(Field{"bidirectional", "half of the buckets are for later keys", {}, false}, c.bidirectional);
}

/// The bucket of `distance`, the position of the key minus that of the query.
std::int64_t bucket_of(const RelativeBiasConfig& c, std::int64_t distance);

/// `[n_heads, 2n − 1]`: the bias of the distances −(n − 1) … n − 1 from `table` `[n_buckets, n_heads]`, where n is the
/// length of the longest sequence of the stack.
Tensor relative_bias(Pass& p, const RelativeBiasConfig& c, const Param& table, Stack stack);

}  // namespace vitrine
