// The rows of an attribution graph: the direct effects of all sources on one node.
//
//   row[feature]  = activation · f · Σ_m W_dec,m · g_m[t]      g_m [T, d] the gradient of the node with respect to the
//   row[error]    = e_l[t] · g_l[t]                            value at the output site of layer m's transcoder, m the
//   row[token]    = embedding[t] · g_embed[t]                  layers that the feature writes to and that come before
//   bias          = the same of all constants                  the node
//
// The gradients are those of a linear pass (TrainingRequest::linearizes), whose tape is replayed from each node: from
// the input site of its transcoder, or from the normed stream of the last token. So a row and its bias add up to the
// value of the node. Source: Ameisen et al. 2025; safety-research/circuit-tracer 0.5.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "circuit/clean_run.h"

namespace vitrine {

/// What a row is of: a feature of the layout, or a logit.
struct GraphRow {
  std::int64_t node = 0;
  double bias = 0;   ///< What constants add.
  double value = 0;  ///< The feature's pre-activation, or LogitNode::value.
};

/// The linear pass of a text, while its tape exists.
class LinearRows {
 public:
  virtual ~LinearRows() = default;
  /// Writes the row of a node to `row`, of the size of shape_of(node). Throws InternalError if row and bias do not add
  /// up to the value.
  virtual GraphRow compute(std::int64_t node, std::span<float> row) = 0;
  virtual RowShape shape_of(std::int64_t node) const = 0;
};

/// Runs the text with a tape and calls `use`. Throws as a forward does, and Unsupported for a model in which an op
/// outside of the sublayers that transcoders replace is not linear.
void with_linear_rows(const GenerateContext& context, std::span<const std::int32_t> ids, const CircuitValues& values,
                      const std::function<void(LinearRows&)>& use);

/// Bytes of the activations and gradients of that pass.
std::int64_t linear_pass_bytes(const GenerateContext& context, std::int64_t n_tokens);

}  // namespace vitrine
