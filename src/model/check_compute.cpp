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

}  // namespace

void check_compute(const Model& model, Compute compute) {
  if (compute != Compute::bf16) return;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape& shape) {
    const DType dtype = param.view.dtype;
    if (shape.rank() < 2 || is_quantized(dtype) || dtype == DType::bf16 || is_table(model, param, name)) return;
    throw Unsupported("compute", "bf16 multiplies bf16 weights, but {} is {}", name, name_of(dtype));
  });
}

}  // namespace vitrine
