// The linear maps of a base that adapters change, under the names of each format of adapters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/tensor_rules.h"

namespace vitrine {

enum class AdapterFormat : std::uint8_t { peft, gguf };

/// A row of a stored matrix: row `row` of the part-th map.
struct PartRow {
  std::size_t part = 0;
  std::int64_t row = 0;
};

/// A module of the base in a format: one stored weight, which may hold several maps.
struct AdapterPlace {
  std::string module;             ///< `model.layers.0.self_attn.qkv_proj`, `blk.0.attn_q.weight`
  std::vector<std::string> ours;  ///< Names of weights. Of all experts: one expert after another.
  std::int64_t layer = -1;        ///< −1: outside the layers.
  bool transposed = false;        ///< The base stores the weight as `[in, out]`.
  bool stacks_experts = false;    ///< A and B have a dimension for the expert before the others.
  /// `module` is a parameter of all experts: A is `[E · r, in]`, expert by expert, B `[out, r · E]`, whose columns are
  /// those of each expert in turn. The maps of an expert share its A.
  bool is_parameter = false;
  bool is_swapped = false;         ///< As `in` PEFT takes the outputs, as `out` the inputs.
  std::int64_t n_experts = 1;      ///< Of a parameter.
  std::int64_t cols = 0;           ///< Elements of a row of x.
  std::vector<std::int64_t> rows;  ///< Of each map.
  std::vector<PartRow> order;      ///< The map and the row of each stored row, of one expert; empty if it stacks them.
  bool is_part = false;            ///< Further rows of its only map are in other modules, with the same A.
  std::vector<float> factors;      ///< By which each stored row is the map's; empty: 1.
  std::vector<std::int64_t> columns;  ///< The map's column of each stored column; empty: the same.

  std::int64_t maps_of_expert() const { return static_cast<std::int64_t>(ours.size()) / n_experts; }
};

/// The module of a parameter: its name up to the last dot.
std::string module_of_parameter(const AdapterPlace& place);

/// All names by which the format may call the modules of this base. Throws Unsupported if GGUF has no architecture for
/// it.
std::vector<AdapterPlace> all_places(const Checkpoint& base, AdapterFormat format);
/// The modules under the one name that files written for this base use. Experts are parameters in PEFT, in the order
/// in which PEFT wraps them; without `parameters` they are modules, one for each map of the base's files.
std::vector<AdapterPlace> usual_places(const Checkpoint& base, AdapterFormat format, bool parameters = true);

/// Whether an adapter can change a parameter: the weight of a linear map.
bool is_adaptable(std::string_view name);
/// Whether a parameter is a matrix of a mixer with a state that an adapter can change: not a convolution.
bool is_of_state(std::string_view name);

}  // namespace vitrine
