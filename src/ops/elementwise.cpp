#include "ops/elementwise.h"

#include <cmath>

#include "base/error.h"

namespace vitrine {
namespace {

void check_same_shape(std::string_view op, const Tensor& a, const Tensor& b) {
  if (a.shape != b.shape) {
    throw InternalError(op, "expected two equal shapes, got {} and {}", to_string(a.shape), to_string(b.shape));
  }
}

}  // namespace

Tensor add(Pass& p, const Tensor& a, const Tensor& b) {
  check_same_shape("add", a, b);
  const Tensor y = p.tensor(a.shape);
  const std::int64_t n = a.row_size();
  p.for_rows(a.rows(), n, [&](std::int64_t t) { p.kernels.add(a.row(t), b.row(t), n, y.row(t)); });
  return y;
}

Tensor scale(Pass& p, float factor, const Tensor& x) {
  if (factor == 1.0f) return x;
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), n, [&](std::int64_t t) { p.kernels.scale(x.row(t), n, factor, y.row(t)); });
  return y;
}

Tensor activate(Pass& p, Activation activation, const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), 8 * n, [&](std::int64_t t) { p.kernels.activate(activation, x.row(t), n, y.row(t)); });
  return y;
}

Tensor sigmoid(Pass& p, const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  constexpr float kZero = 0.0f;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const float magnitude = std::abs(x.data[i]);
    float e = 0;
    p.kernels.exp_sum(&kZero, 1, magnitude, &e);  // exp(−|x|), which never overflows
    y.data[i] = x.data[i] < 0 ? e / (1.0f + e) : 1.0f / (1.0f + e);
  }
  return y;
}

Tensor multiply_rows(Pass& p, const Tensor& x, const Tensor& factor) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), n, [&](std::int64_t t) { p.kernels.scale(x.row(t), n, factor.data[t], y.row(t)); });
  return y;
}

Tensor gated(Pass& p, Activation activation, const Tensor& gate, const Tensor& up) {
  check_same_shape("gated", gate, up);
  const Tensor y = p.tensor(gate.shape);
  const std::int64_t n = gate.row_size();
  p.for_rows(gate.rows(), 8 * n, [&](std::int64_t t) {
    p.kernels.activate(activation, gate.row(t), n, y.row(t));
    p.kernels.multiply(y.row(t), up.row(t), n, y.row(t));
  });
  return y;
}

Tensor softcap(Pass& p, float cap, const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), 8 * n, [&](std::int64_t t) { p.kernels.softcap(x.row(t), n, cap, y.row(t)); });
  return y;
}

}  // namespace vitrine
