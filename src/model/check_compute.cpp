#include "model/check_compute.h"

#include "base/error.h"
#include "model/params.h"

namespace vitrine {
namespace {

/// Whether only rows of this parameter are read.
bool is_table(const Model& model, const Param& param, const std::string& name) {
  if (model.config().head.tied && &param == &model.params().embed) return false;
  return name.ends_with("embed.weight") || name.ends_with("rel_bias.weight");
}

/// Calls visit(param, name, count) for every parameter by which rows are multiplied.
template <class Visit>
void for_each_factor(const Model& model, Visit&& visit) {
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape& shape) {
    if (shape.rank() >= 2 && !is_table(model, param, name)) visit(param, name, shape.count());
  });
}

}  // namespace

bool has_blocks(const Model& model) {
  bool found = false;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string&, const Shape&) {
    found = found || has_integer_products(param.view.dtype);
  });
  return found;
}

std::string products_name(const Model& model, Compute compute) {
  if (compute == Compute::f32) return "f32";
  if (has_blocks(model)) return "int8";
  std::int64_t pairs = 0, floats = 0;
  for_each_factor(model, [&](const Param& param, const std::string&, std::int64_t n) {
    (param.view.dtype == DType::bf16 && compute != Compute::int8 ? pairs : floats) += n;
  });
  return pairs > floats ? "bf16" : "f32";
}

void check_compute(const Model& model, Compute compute) {
  if (compute == Compute::int8 && !has_blocks(model)) {
    throw Unsupported("--compute", "int8 multiplies quantized weights, but the model has none");
  }
  if (compute != Compute::bf16) return;
  for_each_factor(model, [&](const Param& param, const std::string& name, std::int64_t) {
    const DType dtype = param.view.dtype;
    if (is_quantized(dtype) || dtype == DType::bf16) return;
    throw Unsupported("compute", "bf16 multiplies bf16 weights, but {} is {}", name, name_of(dtype));
  });
}

}  // namespace vitrine
