#include "circuit/prune.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vitrine {
namespace {

constexpr double kLeastRow = 1e-10;

using Doubles = std::vector<double>;

/// Calls visit(row, element) for the edges of all rows that have some, from the last row.
template <class Visit>
void for_edges(const AttributionGraph& graph, std::int64_t row, Visit visit) {
  for (std::int64_t i = graph.indptr[static_cast<std::size_t>(row)];
       i < graph.indptr[static_cast<std::size_t>(row) + 1]; ++i) {
    visit(static_cast<std::size_t>(i), static_cast<std::size_t>(graph.indices[static_cast<std::size_t>(i)]));
  }
}

Doubles logit_weights(const AttributionGraph& graph) {
  Doubles weights(static_cast<std::size_t>(graph.n_nodes()));
  for (std::size_t i = 0; i < graph.values.logits.size(); ++i) {
    weights[static_cast<std::size_t>(graph.first_logit()) + i] =
        static_cast<double>(graph.values.logits[i].probability);
  }
  return weights;
}

/// Σ |effect| of each row, over edges between nodes that remain; all if `nodes` is empty. At least kLeastRow.
Doubles row_sizes(const AttributionGraph& graph, const std::vector<bool>& nodes) {
  Doubles sizes(static_cast<std::size_t>(graph.n_nodes()));
  for (std::int64_t row = 0; row < graph.n_nodes(); ++row) {
    double& size = sizes[static_cast<std::size_t>(row)];
    if (nodes.empty() || nodes[static_cast<std::size_t>(row)]) {
      for_edges(graph, row, [&](std::size_t edge, std::size_t source) {
        if (nodes.empty() || nodes[source]) size += std::abs(static_cast<double>(graph.effects[edge]));
      });
    }
    size = std::max(size, kLeastRow);
  }
  return sizes;
}

/// Of each node on the logits, without the weights of the logits themselves.
Doubles influence_of(const AttributionGraph& graph, const Doubles& weights, const Doubles& sizes,
                     const std::vector<bool>& nodes) {
  Doubles influence(weights.size());
  for (std::int64_t row = graph.n_nodes(); row-- > 0;) {
    const auto target = static_cast<std::size_t>(row);
    const double factor = (influence[target] + weights[target]) / sizes[target];
    if (factor == 0 || (!nodes.empty() && !nodes[target])) continue;
    for_edges(graph, row, [&](std::size_t edge, std::size_t source) {
      if (!nodes.empty() && !nodes[source]) return;
      influence[source] += factor * std::abs(static_cast<double>(graph.effects[edge]));
    });
  }
  return influence;
}

/// The least of the largest scores that add up to `share` of their sum. Zeros need not be among `scores`.
template <class Number>
Number threshold_of(std::vector<Number> scores, double share) {
  std::ranges::sort(scores, std::greater());
  double total = 0, sum = 0;
  for (const Number score : scores) total += static_cast<double>(score);
  for (const Number score : scores) {
    sum += static_cast<double>(score);
    if (sum / total >= share) return score;
  }
  return scores.empty() ? Number{} : scores.back();
}

/// By node: the share of the sum that it and all stronger nodes have.
Doubles cumulative_shares(const Doubles& influence) {
  std::vector<std::size_t> order(influence.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return influence[a] > influence[b]; });
  const double total = std::accumulate(influence.begin(), influence.end(), 0.0);
  Doubles shares(influence.size());
  double sum = 0;
  for (const std::size_t node : order) {
    sum += influence[node];
    shares[node] = sum / total;
  }
  return shares;
}

/// Removes features and errors without an edge to a later node, features without one from an earlier node, and the
/// edges of what has been removed, until nothing changes.
void remove_loose_ends(const AttributionGraph& graph, PrunedGraph& pruned) {
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    std::vector<bool> has_in(pruned.nodes.size()), has_out(pruned.nodes.size());
    for (std::int64_t row = 0; row < graph.n_nodes(); ++row) {
      const auto target = static_cast<std::size_t>(row);
      for_edges(graph, row, [&](std::size_t edge, std::size_t source) {
        if (!pruned.nodes[target] || !pruned.nodes[source]) pruned.edges[edge] = false;
        if (!pruned.edges[edge]) return;
        has_in[target] = true;
        has_out[source] = true;
      });
    }
    for (std::int64_t node = 0; node < graph.first_token(); ++node) {
      const auto i = static_cast<std::size_t>(node);
      const bool remains = pruned.nodes[i] && has_out[i] && (node >= graph.n_selected() || has_in[i]);
      is_changed = is_changed || remains != pruned.nodes[i];
      pruned.nodes[i] = remains;
    }
  }
}

}  // namespace

GraphScores scores_of(const AttributionGraph& graph) {
  const Doubles weights = logit_weights(graph), sizes = row_sizes(graph, {});
  const Doubles influence = influence_of(graph, weights, sizes, {});
  double tokens = 0, errors = 0, complete = 0, output = 0;
  for (std::int64_t node = graph.first_error(); node < graph.first_logit(); ++node) {
    (node < graph.first_token() ? errors : tokens) += influence[static_cast<std::size_t>(node)];
  }
  for (std::int64_t row = 0; row < graph.n_nodes(); ++row) {
    const auto i = static_cast<std::size_t>(row);
    double of_errors = 0;
    for_edges(graph, row, [&](std::size_t edge, std::size_t source) {
      const auto node = static_cast<std::int64_t>(source);
      if (node < graph.first_error() || node >= graph.first_token()) return;
      of_errors += std::abs(static_cast<double>(graph.effects[edge])) / sizes[i];
    });
    complete += (1 - of_errors) * (influence[i] + weights[i]);
    output += influence[i] + weights[i];
  }
  return {tokens / (tokens + errors), complete / output};
}

PrunedGraph prune(const AttributionGraph& graph, double node_threshold, double edge_threshold) {
  const Doubles weights = logit_weights(graph);
  const Doubles influence = influence_of(graph, weights, row_sizes(graph, {}), {});
  PrunedGraph pruned;
  const double least = threshold_of(influence, node_threshold);
  for (std::int64_t node = 0; node < graph.n_nodes(); ++node) {
    pruned.nodes.push_back(node >= graph.first_token() || influence[static_cast<std::size_t>(node)] >= least);
  }
  pruned.cumulative = cumulative_shares(influence);

  const Doubles sizes = row_sizes(graph, pruned.nodes);
  const Doubles remaining = influence_of(graph, weights, sizes, pruned.nodes);
  std::vector<float> scores(graph.effects.size());
  for (std::int64_t row = 0; row < graph.n_nodes(); ++row) {
    const auto target = static_cast<std::size_t>(row);
    const double factor = (remaining[target] + weights[target]) / sizes[target];
    for_edges(graph, row, [&](std::size_t edge, std::size_t source) {
      if (!pruned.nodes[target] || !pruned.nodes[source]) return;
      scores[edge] = static_cast<float>(factor * std::abs(static_cast<double>(graph.effects[edge])));
    });
  }
  const float least_score = threshold_of(scores, edge_threshold);
  pruned.edges.reserve(scores.size());
  for (const float score : scores) pruned.edges.push_back(score >= least_score && score > 0);
  remove_loose_ends(graph, pruned);
  return pruned;
}

}  // namespace vitrine
