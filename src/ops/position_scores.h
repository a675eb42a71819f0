// Scores by relative position in disentangled attention: a query meets the embedding of its distance to a key, and a
// key that of the distance of a query to it.
//
//   r(t − s)               = clamp(bucket(t − s) + span, 0, 2 · span − 1)      t the query's position, s the key's
//   of_queries[t, h, r]    = scale · q[t, h] · pk[r, h]                        content to position
//   of_keys[s, h, r]       = scale · k[s, h] · pq[r, h]                        position to content
//   raw[h, t, s]          += of_queries[t, h, r(t − s)] + of_keys[s, h, r(t − s)]                          (attend.h)
//
//   dq[t, h] += scale · Σ_r dof_queries[t, h, r] · pk[r, h]     dpk[r, h] += scale · Σ_t dof_queries[t, h, r] · q[t, h]
//
// pk and pq are projections of a table of 2 · span rows, which all layers share. Buckets are distances up to span / 2,
// then logarithmically wider up to max_distance; the logarithm is float32, as in the reference.
// Sources: He et al. 2021, "DeBERTa"; transformers, models/deberta_v2/modeling_deberta_v2.py.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/fields.h"
#include "ops/norm.h"
#include "pass/pass.h"

namespace vitrine {

/// The table of a stack.
struct DistanceTableConfig {
  std::int64_t span = 0;                       ///< Half of its rows.
  std::optional<std::int64_t> max_distance{};  ///< Of logarithmic buckets; absent: each distance is its own.
  std::optional<NormConfig> norm{};            ///< Of its rows.

  bool operator==(const DistanceTableConfig&) const = default;
};

template <ConfigOf<DistanceTableConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"span", "half of the rows of the table of distances", {}, false}, c.span);
  visit(Field{"max_distance", "of logarithmic buckets", {}, false}, c.max_distance);
  visit(Field{"norm", "of the rows of the table", {}, false}, c.norm);
}

/// The row of the table for `distance`, the position of the query minus that of the key.
std::int64_t row_of(const DistanceTableConfig& c, std::int64_t distance);

/// The rows of a table that a pass needs.
struct PositionRows {
  Tensor rows{};  ///< `[m, d]`, normed; no data without a table.
  /// By distance, from −(n − 1) to n − 1, n the length of the longest sequence: the index of its row.
  std::shared_ptr<const std::vector<std::int32_t>> of_distance{};
};

/// The rows for the segments of `stack`, from `table` `[2 · span, d]`.
PositionRows position_rows(Pass& p, const DistanceTableConfig& c, const Param& table, const NormParams& norm,
                           Stack stack);

/// `[T, H, m]`: scale · x[t, h] · y[r, h], from x `[T, H, n]` and y `[m, H · n]`.
Tensor position_products(Pass& p, const Tensor& x, const Tensor& y, float scale);

}  // namespace vitrine
