#include "pass/pass.h"

#include "base/error.h"
#include "kernels/widen_row.h"

namespace vitrine {

NotFinite error_of(const Failure& failure) {
  return {
      name_of(failure.where),
      "a value is infinite or NaN (row {}): check the weights up to this point and the values written into the pass",
      failure.row};
}

Tensor Pass::visit(const SiteId& id, const Tensor& value) {
  Tensor result = value;
  if (taps_want(id)) result = split != nullptr ? split->visit(*this, id, value) : taps->visit(*this, id, value);
  if (result.shape != value.shape) {
    throw BadInput(name_of(id), "a replacement must have shape {}, got {}", to_string(value.shape),
                   to_string(result.shape));
  }
  if (is_taped() && taps_want(id) && training.tape->knows(result) && taps->wants_gradient(id)) {
    training.tape->watch(result, [this, id](const Tensor& grad) { taps->visit_gradient(*this, id, grad); });
  }
  return attached != nullptr && attached->is_at(id) ? attached->visit(*this, id, result) : result;
}

void Pass::record_refusal(OpKind kind, std::span<const Tensor> inputs, const Tensor& output) {
  training.tape->record(name_of(kind), inputs, output, [kind] {
    throw Unsupported(name_of(kind), "the op is not linear, and no transcoder replaces the sublayer that it is in");
  });
}

void Pass::refuse_tape(std::string_view op) const {
  if (is_taped()) throw Unsupported(op, "no gradient can flow through this: it has no backward");
}

void ExecutionContext::check_interrupt() const {
  if (interrupt != nullptr && interrupt->load(std::memory_order_relaxed)) throw Interrupted();
  if (poll != nullptr) poll->poll();
}

void ExecutionContext::widen(const MatrixView& w, std::int64_t row, std::int64_t n, float* y) const {
  widen_row(kernels, w, row, n, y);
}

const float* ExecutionContext::vector(const Param& param) {
  const auto address = reinterpret_cast<std::uintptr_t>(param.view.data);
  const MatrixView& w = param.view;
  const bool is_contiguous = w.rows == 1 || (w.col_stride == 1 && w.row_stride == w.cols);
  if (w.dtype == DType::f32 && address % alignof(float) == 0 && is_contiguous) {
    return reinterpret_cast<const float*>(w.data);
  }
  float* const widened = arena.tensor({w.rows * w.cols}).data;
  for (std::int64_t row = 0; row < w.rows && !shapes_only; ++row) widen(w, row, w.cols, widened + row * w.cols);
  return widened;
}

double LossResult::balance_of_layers() const {
  double sum = 0;
  const auto n = static_cast<double>(routed_rows);
  for (std::size_t e = 0; e < choices.size(); ++e) sum += choices[e] / n * (choice_weights[e] / n);
  return sum * static_cast<double>(choices.size());
}

}  // namespace vitrine
