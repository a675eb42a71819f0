// An attribution graph: nodes, and the direct effects between them as a sparse matrix.
//
// Nodes are numbered as in circuit-tracer's Graph: selected features by layer, position and index; errors by layer and
// position; tokens; logits. Rows are targets, columns are sources. Features of later layers have greater numbers, so
// the graph has no cycle, and every row comes after the rows of its sources.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "circuit/clean_run.h"

namespace vitrine {

struct AttributionGraph {
  CircuitValues values;                 ///< All active features, and the logits.
  std::vector<std::int64_t> selected;   ///< The features of the graph, in `values.features`, ascending.
  std::vector<std::int64_t> indptr;     ///< `[n + 1]`
  std::vector<std::int32_t> indices{};  ///< Of the sources of each row, ascending; effects of 0 are left out.
  std::vector<float> effects{};
  std::vector<float> bias{}, value{};  ///< `[n]`: what constants add to a node, and its value; 0 for errors and tokens.

  std::int64_t n_selected() const { return std::ssize(selected); }
  /// The number of the first error, token, logit, and the number of nodes.
  std::int64_t first_error() const { return n_selected(); }
  std::int64_t first_token() const { return first_error() + values.layout.n_layers() * values.layout.n_tokens(); }
  std::int64_t first_logit() const { return first_token() + values.layout.n_tokens(); }
  std::int64_t n_nodes() const { return first_logit() + values.layout.n_logits(); }
};

struct GraphOptions {
  LogitChoice logits{};
  std::int64_t max_feature_nodes = 7500;
  std::int64_t batch_size = 256;  ///< Features are chosen anew after four batches.
  std::int64_t zero_positions = 1;
};

/// Called after each row.
using GraphProgress = std::function<void(std::int64_t done, std::int64_t of)>;

/// Computes the graph of a text from its values: the rows of the logits, then those of the features with the largest
/// influence on the logits so far. Rows are kept in a file in the folder of `path`. Throws as with_linear_rows().
AttributionGraph make_graph(const GenerateContext& context, std::span<const std::int32_t> ids, CircuitValues values,
                            const GraphOptions& options, const std::string& path, const GraphProgress& progress = {});

}  // namespace vitrine
