#include "pass/pass.h"

#include "base/error.h"

namespace vitrine {

Tensor Pass::visit(const SiteId& id, const Tensor& value) {
  const Tensor result = taps->visit(*this, id, value);
  if (result.shape != value.shape) {
    throw BadInput(name_of(id), "a replacement must have shape {}, got {}", to_string(value.shape),
                   to_string(result.shape));
  }
  return result;
}

void Pass::check_interrupt() const {
  if (interrupt != nullptr && interrupt->load(std::memory_order_relaxed)) throw Interrupted();
}

const float* Pass::vector(const Param& param) {
  const auto address = reinterpret_cast<std::uintptr_t>(param.view.data);
  if (param.view.dtype == DType::f32 && address % alignof(float) == 0) {
    return reinterpret_cast<const float*>(param.view.data);
  }
  float* widened = arena.tensor({param.view.cols}).data;
  kernels.widen(param.view.data, param.view.dtype, param.view.cols, widened);
  return widened;
}

}  // namespace vitrine
