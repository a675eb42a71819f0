// The values and ops of one forward, from which the formulas and the arithmetic of its elements are spelled.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/config.h"
#include "pass/sites.h"
#include "tensor/tensor.h"

namespace vitrine {

/// A recorded value.
struct Seen {
  SiteId site;  ///< Set for a value or gradient at a site.
  Shape shape;
  std::vector<float> values;
  std::int64_t first = 0;  ///< The element that values[0] is: of a large parameter, only a row may be kept.

  float operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i - first)]; }
  std::int64_t count() const { return static_cast<std::int64_t>(values.size()); }
  std::int64_t last_size() const { return shape[shape.rank() - 1]; }
};

using SeenByName = std::map<std::string, Seen>;

/// An input or output of an op.
struct Operand {
  std::string name;       ///< Of its first site; "" if it has none. Consecutive sites may have the same value.
  std::string last_name;  ///< Of its last site, where its gradient arrives.
  Seen value;
  std::optional<Seen> gradient;
  Shape site_shape;                                       ///< At its site, where heads are a dimension.
  std::optional<std::size_t> made_by;                     ///< Index of the op; none for ids.
  std::vector<std::pair<std::size_t, std::size_t>> uses;  ///< Index of the StepOp, and of its input.
};

/// An op of the forward, from its ledger.
struct StepOp {
  std::string_view kind;  ///< `linear`, `norm_scale`.
  int layer = -1;
  std::string name;                  ///< In the ledger: `attn.wq`.
  std::string param;                 ///< `blocks.0.attn.wq.weight`; "" if it has none.
  std::optional<NormConfig> norm{};  ///< The norm that the op is a step of.
  std::vector<std::size_t> inputs;
  std::size_t output = 0;
};

struct ForwardFacts {
  const ModelConfig* config = nullptr;
  std::vector<std::int32_t> ids, targets;
  std::vector<float> weights;        ///< Of each row's loss; empty without a loss.
  SeenByName values;                 ///< At sites; a loss also needs `softmax`, the probabilities.
  std::vector<std::string> forward;  ///< Names of sites in the order of the forward.
  std::vector<Operand> operands;
  std::vector<StepOp> ops;
  std::map<std::string, std::size_t> operand_of;  ///< By name of the site; several sites may share an operand.
  SeenByName params;
  /// Of a dot product whose text is longer than this, the remaining terms are only added. The text is then cut off.
  std::size_t most_text = std::numeric_limits<std::size_t>::max();

  std::int64_t n_tokens() const { return static_cast<std::int64_t>(ids.size()); }
  const BlockConfig& block(int layer) const { return config->blocks[static_cast<std::size_t>(layer)]; }
  /// The gradient of an operand; null if it was not recorded.
  const Seen* gradient_of(std::size_t operand) const {
    const std::optional<Seen>& gradient = operands[operand].gradient;
    return gradient ? &*gradient : nullptr;
  }
  /// The bias of an op; null if it has none.
  const Seen* bias_of(const StepOp& op) const {
    const auto it = params.find(op.param.substr(0, op.param.rfind('.')) + ".bias");
    return it == params.end() ? nullptr : &it->second;
  }
};

}  // namespace vitrine
