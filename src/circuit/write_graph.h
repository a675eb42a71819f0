// Attribution graphs as files.
#pragma once

#include <string>

#include "circuit/graph.h"
#include "circuit/prune.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// How a file describes its graph.
struct GraphText {
  std::string slug;  ///< The name of the graph.
  std::string scan;  ///< The name of the transcoders.
  std::string prompt;
  std::vector<std::int32_t> ids{};
  const Tokenizer* tokenizer = nullptr;  ///< Null: tokens are written as #ID.
  double node_threshold = 0.8;

  std::string token(std::int32_t id) const;
};

/// The `scan` of a folder of circuit-tracer; else the name of the folder.
std::string scan_of(const std::string& path);

/// The nodes and links of a file of circuit-tracer's frontend.
struct WrittenGraph {
  std::int64_t nodes = 0, links = 0;
};
/// Writes what remains of a graph as the JSON of circuit-tracer's frontend (frontend/graph_models.py). Throws as
/// FileWriter.
WrittenGraph write_frontend_graph(const std::string& path, const AttributionGraph& graph, const PrunedGraph& pruned,
                                  const GraphText& text);

/// Writes the whole graph as safetensors: `active_features`, `activation_values`, `selected_features`, the sparse rows
/// `indptr`, `indices` and `values`, `bias` and `value` by row, `logit_tokens`, `logit_probabilities` and
/// `input_tokens`.
void write_adjacency(const std::string& path, const AttributionGraph& graph, const GraphText& text);

}  // namespace vitrine
