// Which nodes and edges of an attribution graph matter to its logits, and how much of the model the graph explains.
//
//   N[i, j]         = |A[i, j]| / Σ_j |A[i, j]|                    A the effects, rows are targets
//   influence       = w N + w N² + …                               w the probabilities of the logits, else 0
//   edge score      = N'[i, j] · (influence'[i] + w[i])            ' of the graph without the pruned nodes
//   replacement     = Σ_tokens influence / Σ_tokens and errors influence
//   completeness    = Σ_i o[i] · (1 − Σ_errors N[i, j]) / Σ o      o = influence + w
//
// A threshold keeps the strongest nodes or edges that have this share of the sum. Sums are in double precision. Source:
// safety-research/circuit-tracer 0.5, graph.py (prune_graph, compute_graph_scores).
#pragma once

#include "circuit/graph.h"

namespace vitrine {

struct GraphScores {
  double replacement = 0, completeness = 0;
};
GraphScores scores_of(const AttributionGraph& graph);

struct PrunedGraph {
  std::vector<bool> nodes;  ///< Which remain, `[n]`.
  std::vector<bool> edges;  ///< By element of `effects`.
  /// By node: the share of the influence that it and all stronger nodes have.
  std::vector<double> cumulative{};
};
/// The thresholds are shares from 0 to 1.
PrunedGraph prune(const AttributionGraph& graph, double node_threshold, double edge_threshold);

}  // namespace vitrine
