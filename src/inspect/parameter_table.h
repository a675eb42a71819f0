// The parameters of a model as a table, in which equal parameters of several layers are one row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "tensor/tensor.h"

namespace vitrine {

/// A parameter, or the parameters of several layers with the same name and shape.
struct ParameterRow {
  std::string name;   ///< `blocks.N.attn.wq.weight`
  std::string first;  ///< The full name of the first of them.
  Shape shape;
  bool in_block = false;
  std::int64_t layers = 1;

  std::int64_t total() const { return shape.count() * layers; }
};

/// The rows in the order of for_each_param.
std::vector<ParameterRow> parameter_table(const ModelConfig& config);

}  // namespace vitrine
