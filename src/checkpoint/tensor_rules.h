// A family's table of tensors applied to one config: every stored name, and the parameters in it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/family.h"

namespace vitrine {

/// The tensor of one rule for one ending, layer, expert and head.
struct TensorPlace {
  const TensorRule* rule = nullptr;
  std::string stored;
  std::vector<std::string> ours;
  std::int64_t layer = 0;
  std::optional<std::int64_t> head{};  ///< The stored tensor is this head's part of `ours`, a vector.
  /// Stored with a first dimension for the expert or stream; `ours` has the parameters of one after the other.
  bool stacks_experts = false;
};

/// Calls visit(place) for every place of `rule` in a model of that config: all weights layer by layer, then all biases.
/// Not every place holds parameters of the model.
void for_each_place(const TensorRule& rule, std::string_view prefix, const ModelConfig& config,
                    const std::function<void(const TensorPlace&)>& visit);

/// The shape of a place's tensor.
struct PlaceShape {
  bool is_vector = false;            ///< Its elements are rows of one column.
  bool transposed = false;           ///< Stored as `[cols, rows]`.
  std::int64_t rows = 0, cols = 1;   ///< In our orientation, the rows of all its parameters together.
  std::int64_t n_stacked = 1;        ///< Experts, one after another.
  std::int64_t row_size = 0;         ///< Elements from one row to the next; 0: those of a row.
  std::vector<std::int64_t> stored;  ///< As in the file.
};

/// The shape of a tensor that holds parameters of these shapes. The weights of a norm that has one for each head are
/// stored as `[head, head_dim]`.
PlaceShape shape_of(const TensorPlace& place, const ModelConfig& config, const std::vector<Shape>& parts);

/// The parameters of a tensor of that shape as views of `bytes`, in which the rows of each of them are consecutive; or
/// alternate, if the rule says so and the tensor is not transposed.
std::vector<MatrixView> views_of(const TensorPlace& place, const PlaceShape& shape, const std::byte* bytes, DType dtype,
                                 const std::vector<Shape>& parts);

/// Consecutive rows of one parameter.
struct RowRun {
  std::size_t part = 0;    ///< The parameter's index in the rule.
  std::int64_t first = 0;  ///< Its first row in the parameter.
  std::int64_t count = 0;
};

/// The runs of rows that a stored tensor consists of, in order.
std::vector<RowRun> row_runs(const TensorPlace& place, const ModelConfig& config, const std::vector<Shape>& parts);

}  // namespace vitrine
