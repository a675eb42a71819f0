// A factor of the queries that grows with the position, so that attention over long texts stays sharp.
//
//   factor[t] = 1 + beta · ln(1 + ⌊(position[t] + first) / interval⌋)
//
// It is 1 within the first interval. It has no gradient. Sources: Nakanishi 2025 (Scalable-Softmax); Llama 4's release;
// transformers, models/llama4 and models/ministral3.
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "pass/pass.h"

namespace vitrine {

struct QueryScaleConfig {
  float beta = 0.1f;
  std::int64_t interval = 8192;  ///< In tokens.
  std::int64_t first = 0;        ///< What is added to the position.

  bool operator==(const QueryScaleConfig&) const = default;
};

template <ConfigOf<QueryScaleConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"beta", "of the logarithm"}, c.beta);
  visit(Field{"interval", "tokens after which a factor of the queries grows; without this key there is none", "none"},
        c.interval);
  visit(Field{"first", "added to the position"}, c.first);
}

/// `[T]`: the factors of the rows of a stack.
Tensor query_scales(Pass& p, const QueryScaleConfig& c, std::int64_t n_rows, Stack stack);
/// Queries `[T, …]` times these factors, which attn.hook_query_scale shows.
Tensor scale_queries(Pass& p, BlockSite at, const QueryScaleConfig& c, const Tensor& q);

}  // namespace vitrine
