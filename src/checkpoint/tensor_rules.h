// What a family's table of tensors comes to for one config: every stored name, and the parameters in it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/family.h"

namespace vitrine {

/// One rule for one layer and expert, as far as its names speak of them.
struct TensorPlace {
  const TensorRule* rule = nullptr;
  std::string stored;
  std::vector<std::string> ours;
  std::int64_t layer = 0;
  bool stacks_experts = false;  ///< Stored as `[expert, out, in]`, `ours` one matrix an expert.
};

/// Calls visit(place) for every place of `rule` in a model of that config, layer by layer.
void for_each_place(const TensorRule& rule, std::string_view prefix, const ModelConfig& config,
                    const std::function<void(const TensorPlace&)>& visit);

/// The sizes of a place's tensor.
struct PlaceShape {
  bool is_vector = false;            ///< Its elements are rows of one column.
  std::int64_t rows = 0, cols = 1;   ///< In our orientation, the rows of all its parameters together.
  std::vector<std::int64_t> stored;  ///< In the file's.
};

/// The sizes of a tensor that holds parameters of these shapes. A norm with a weight for each head is stored as
/// `[head, head_dim]`.
PlaceShape shape_of(const TensorPlace& place, const ModelConfig& config, const std::vector<Shape>& parts);

/// Consecutive rows of one parameter.
struct RowRun {
  std::size_t part = 0;    ///< Which of the rule's parameters.
  std::int64_t first = 0;  ///< Its row.
  std::int64_t count = 0;
};

/// Where the rows of a stored tensor belong, from its first to its last; `part_rows`: rows of each parameter.
std::vector<RowRun> row_runs(const TensorPlace& place, const ModelConfig& config,
                             const std::vector<std::int64_t>& part_rows);

}  // namespace vitrine
