#include "pass/pass.h"

#include "base/error.h"
#include "quant/block_format.h"

namespace vitrine {

Tensor Pass::visit(const SiteId& id, const Tensor& value) {
  const Tensor result = taps->visit(*this, id, value);
  if (result.shape != value.shape) {
    throw BadInput(name_of(id), "a replacement must have shape {}, got {}", to_string(value.shape),
                   to_string(result.shape));
  }
  if (tape != nullptr && tape->knows(result) && taps->wants_gradient(id)) {
    tape->watch(result, [this, id](const Tensor& grad) { taps->visit_gradient(*this, id, grad); });
  }
  return result;
}

void Pass::refuse_tape(std::string_view op) const {
  if (tape != nullptr) throw Unsupported(op, "this has no backward, so no gradients can go through it");
}

void Pass::check_interrupt() const {
  if (interrupt != nullptr && interrupt->load(std::memory_order_relaxed)) throw Interrupted();
}

void Pass::widen(const std::byte* x, DType dtype, std::int64_t n, float* y) const {
  if (is_blocks(dtype)) return dequantize_row(dtype, x, n, y);
  kernels.widen(x, dtype, n, y);
}

const float* Pass::vector(const Param& param) {
  const auto address = reinterpret_cast<std::uintptr_t>(param.view.data);
  if (param.view.dtype == DType::f32 && address % alignof(float) == 0) {
    return reinterpret_cast<const float*>(param.view.data);
  }
  float* widened = arena.tensor({param.view.cols}).data;
  widen(param.view.data, param.view.dtype, param.view.cols, widened);
  return widened;
}

}  // namespace vitrine
