// Which features get rows: those whose influence on the logits, over the rows that exist, is the largest.
//
//   influence[source] = Σ_rows weight[target] · |row[source]| / Σ |row|      weight: the probability of a logit, the
//                                                                            influence of a feature
//
// A row has sources of earlier layers only, so the rows are passed once, from the last layer to the first. Source:
// safety-research/circuit-tracer 0.5, graph.py (compute_partial_influences).
#pragma once

#include <functional>

#include "circuit/linear_rows.h"
#include "circuit/row_file.h"

namespace vitrine {

/// A row in the file.
struct StoredRow {
  GraphRow row;
  std::size_t number = 0;
  double size = 0;  ///< Σ |row|
};

/// The `n` features without a row that have the largest influence; of equal ones the first. `rows` are all that exist.
std::vector<std::int64_t> strongest_features(const CircuitValues& values, const RowFile& file,
                                             std::span<const StoredRow> rows, std::int64_t n);

}  // namespace vitrine
