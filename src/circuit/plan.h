// What a graph will need, before it is made.
#pragma once

#include <algorithm>

#include "circuit/graph.h"

namespace vitrine {

struct GraphPlan {
  std::int64_t feature_nodes = 0;
  std::int64_t tape_bytes = 0;  ///< Of the linear pass, whatever the number of nodes.
  std::int64_t edge_bytes = 0;  ///< Of nodes and edges.
  std::int64_t disk_bytes = 0;  ///< Of the rows, while they are made.

  /// In addition to what the process has. The tape is gone when the edges are collected.
  std::int64_t memory_bytes() const { return std::max(tape_bytes, edge_bytes); }
};
/// Counts with a dry run and the mean row of a feature.
GraphPlan plan_graph(const GenerateContext& context, const CircuitValues& values, const GraphOptions& options);

/// Computes some rows and returns the seconds that all of `plan` would take.
double measure_graph(const GenerateContext& context, std::span<const std::int32_t> ids, const CircuitValues& values,
                     const GraphPlan& plan);

}  // namespace vitrine
