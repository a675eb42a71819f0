// The run whose graph is made: active features, errors, embeddings and logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "circuit/nodes.h"
#include "generate/context.h"

namespace vitrine {

/// A logit of the last position that is a node.
struct LogitNode {
  std::int32_t token = 0;
  float probability = 0;
  float value = 0;  ///< Before the softcap, minus the mean over the vocabulary.
};

/// Which logits are nodes: the fewest most probable ones whose probabilities add up to `desired_logit_prob`.
struct LogitChoice {
  std::int64_t max_n_logits = 10;
  double desired_logit_prob = 0.95;
};

/// The values of a run of a text.
struct CircuitValues {
  std::vector<const Dictionary*> transcoders;  ///< By layer.
  std::vector<FeatureNode> features;           ///< Ascending by layer, position and index.
  std::vector<LogitNode> logits;               ///< By falling probability.
  NodeLayout layout;
  std::int64_t zero_positions = 0;
  /// By layer: `[T, d]`, what the reconstruction lacks.
  std::vector<std::vector<float>> errors{};
  /// By layer: `[zero_positions, d]`, the part of the value of the output site that is no node's: all of it but what
  /// the skip connection adds.
  std::vector<std::vector<float>> constants{};

  std::int64_t n_layers() const { return static_cast<std::int64_t>(transcoders.size()); }
};

/// Runs the text once. `context`: its dictionaries are one transcoder for each layer. Features and errors at the first
/// `zero_positions` tokens are no nodes. Throws what a forward throws, and Unsupported for models and dictionaries
/// whose local replacement model is not linear.
CircuitValues read_circuit_values(const GenerateContext& context, std::span<const std::int32_t> ids,
                                  const LogitChoice& choice, std::int64_t zero_positions);

}  // namespace vitrine
