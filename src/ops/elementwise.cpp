#include "ops/elementwise.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "ops/describe.h"

namespace vitrine {
namespace {

void check_same_shape(std::string_view op, const Tensor& a, const Tensor& b) {
  if (a.shape != b.shape) {
    throw InternalError(op, "expected two equal shapes, got {} and {}", to_string(a.shape), to_string(b.shape));
  }
}

}  // namespace

void accumulate(Pass& p, const Tensor& from, const Tensor& to) {
  const std::int64_t n = from.row_size();
  p.for_rows(from.rows(), n, [&](std::int64_t t) { p.kernels.add(to.row(t), from.row(t), n, to.row(t)); });
}

Tensor add(Pass& p, const Tensor& a, const Tensor& b) {
  check_same_shape("add", a, b);
  const Tensor y = p.tensor(a.shape);
  const std::int64_t n = a.row_size();
  p.for_rows(a.rows(), n, [&](std::int64_t t) { p.kernels.add(a.row(t), b.row(t), n, y.row(t)); });
  p.record(OpKind::add, {a, b}, y, [&p, a, b, y] {  // da = dy, db = dy
    accumulate(p, p.grad(y), p.grad(a));
    accumulate(p, p.grad(y), p.grad(b));
  });
  return y;
}

Tensor scale(Pass& p, float factor, const Tensor& x) {
  if (factor == 1.0f) return x;
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), n, [&](std::int64_t t) { p.kernels.scale(x.row(t), n, factor, y.row(t)); });
  p.record(OpKind::scale, {x}, y, [&p, factor, n, x, y] {  // dx = factor · dy
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.for_rows(x.rows(), n, [&](std::int64_t t) { p.kernels.add_scaled(dy.row(t), n, factor, dx.row(t)); });
  });
  return y;
}

Tensor activate(Pass& p, Activation activation, const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), 8 * n, [&](std::int64_t t) { p.kernels.activate(activation, x.row(t), n, y.row(t)); });
  p.record({OpKind::activate, activation}, {x}, y, [&p, activation, n, x, y] {  // dx = act'(x) · dy
    const Tensor dx = p.grad(x), dy = p.grad(y);
    const ArenaScope scope(p.arena);
    const Tensor slope = p.tensor(x.shape);
    p.for_rows(x.rows(), 16 * n, [&](std::int64_t t) {
      p.kernels.slope(activation, x.row(t), n, slope.row(t));
      p.kernels.multiply_add(slope.row(t), dy.row(t), n, dx.row(t));
    });
  });
  return y;
}

Tensor sigmoid(Pass& p, const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), 8 * n, [&](std::int64_t t) { p.kernels.sigmoid(x.row(t), n, y.row(t)); });
  p.record(OpKind::sigmoid, {x}, y, [&p, x, y] {  // dx = y (1 − y) dy
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.for_rows(x.count(), 4, [&](std::int64_t i) { dx.data[i] += y.data[i] * (1.0f - y.data[i]) * dy.data[i]; });
  });
  return y;
}

Tensor multiply_rows(Pass& p, const Tensor& x, const Tensor& factor) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), n, [&](std::int64_t t) { p.kernels.scale(x.row(t), n, factor.data[t], y.row(t)); });
  p.record(OpKind::multiply_rows, {x, factor}, y, [&p, n, x, factor, y] {  // dx = factor · dy, dfactor = x · dy
    const Tensor dx = p.grad(x), dfactor = p.grad(factor), dy = p.grad(y);
    p.for_rows(x.rows(), 2 * n, [&](std::int64_t t) {
      p.kernels.add_scaled(dy.row(t), n, factor.data[t], dx.row(t));
      dfactor.data[t] += p.kernels.dot(x.row(t), dy.row(t), n);
    });
  });
  return y;
}

Tensor multiply_columns(Pass& p, const Tensor& x, const Param& w) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  const float* const factors = p.vector(w);
  p.for_rows(x.rows(), n, [&](std::int64_t t) { p.kernels.multiply(x.row(t), factors, n, y.row(t)); });
  p.record(OpKind::multiply_columns, {x}, y, [&p, &w, n, factors, x, y] {  // dx = w · dy, dw = Σ_t x · dy
    const Tensor dx = p.grad(x), dy = p.grad(y), dw = p.grad(w);
    p.for_rows(x.rows(), n, [&](std::int64_t t) { p.kernels.multiply_add(factors, dy.row(t), n, dx.row(t)); });
    if (dw.data == nullptr) return;
    for (std::int64_t t = 0; t < x.rows() && !p.shapes_only; ++t) {
      p.kernels.multiply_add(x.row(t), dy.row(t), n, dw.data);
    }
  });
  if (p.ledger != nullptr) p.ledger->reads(w);
  return y;
}

Tensor hadamard(Pass& p, const Tensor& a, const Tensor& b) {
  check_same_shape("hadamard", a, b);
  const Tensor y = p.tensor(a.shape);
  const std::int64_t n = a.row_size();
  p.for_rows(a.rows(), n, [&](std::int64_t t) { p.kernels.multiply(a.row(t), b.row(t), n, y.row(t)); });
  p.record(OpKind::hadamard, {a, b}, y, [&p, n, a, b, y] {  // da = b · dy, db = a · dy
    const Tensor da = p.grad(a), db = p.grad(b), dy = p.grad(y);
    p.for_rows(a.rows(), 2 * n, [&](std::int64_t t) {
      p.kernels.multiply_add(b.row(t), dy.row(t), n, da.row(t));
      p.kernels.multiply_add(a.row(t), dy.row(t), n, db.row(t));
    });
  });
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
  // dgate = act'(gate) · up · dy, dup = act(gate) · dy
  p.record({OpKind::gated, activation}, {gate, up}, y, [&p, activation, n, gate, up, y] {
    const Tensor dgate = p.grad(gate), dup = p.grad(up), dy = p.grad(y);
    const ArenaScope scope(p.arena);
    const Tensor curve = p.tensor(gate.shape);
    p.for_rows(gate.rows(), 24 * n, [&](std::int64_t t) {
      p.kernels.activate(activation, gate.row(t), n, curve.row(t));
      p.kernels.multiply_add(curve.row(t), dy.row(t), n, dup.row(t));
      p.kernels.slope(activation, gate.row(t), n, curve.row(t));
      p.kernels.multiply(curve.row(t), up.row(t), n, curve.row(t));
      p.kernels.multiply_add(curve.row(t), dy.row(t), n, dgate.row(t));
    });
  });
  return y;
}

Tensor softcap(Pass& p, float cap, const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), 8 * n, [&](std::int64_t t) { p.kernels.softcap(x.row(t), n, cap, y.row(t)); });
  p.record({OpKind::softcap, cap}, {x}, y, [&p, cap, n, x, y] {  // dx = (1 − (y / cap)²) · dy
    const Tensor dx = p.grad(x), dy = p.grad(y);
    const ArenaScope scope(p.arena);
    const Tensor slope = p.tensor(x.shape);
    p.for_rows(x.rows(), 4 * n, [&](std::int64_t t) {
      softcap_slope(y.row(t), n, cap, slope.row(t));
      p.kernels.multiply_add(slope.row(t), dy.row(t), n, dx.row(t));
    });
  });
  return y;
}

Tensor clamp(Pass& p, float limit, const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), n, [&](std::int64_t t) {
    const float* const from = x.row(t);
    std::transform(from, from + n, y.row(t), [limit](float v) { return std::clamp(v, -limit, limit); });
  });
  p.record({OpKind::clamp, limit}, {x}, y, [&p, limit, n, x, y] {  // dx = dy where |x| ≤ limit, else 0
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.for_rows(x.rows(), n, [&](std::int64_t t) {
      const float *const from = x.row(t), *const g = dy.row(t);
      float* const to = dx.row(t);
      for (std::int64_t i = 0; i < n; ++i) to[i] += std::abs(from[i]) <= limit ? g[i] : 0.0f;
    });
  });
  return y;
}

Tensor concat(Pass& p, const Tensor& a, const Tensor& b) {
  const std::int64_t n = a.row_size(), m = b.row_size();
  const Tensor y = p.tensor({a.rows(), n + m});
  p.for_rows(a.rows(), n + m, [&](std::int64_t t) {
    std::copy_n(a.row(t), n, y.row(t));
    std::copy_n(b.row(t), m, y.row(t) + n);
  });
  p.record(OpKind::concat, {a, b}, y, [&p, n, m, a, b, y] {
    const Tensor da = p.grad(a), db = p.grad(b), dy = p.grad(y);
    p.for_rows(dy.rows(), n + m, [&](std::int64_t t) {
      p.kernels.add(da.row(t), dy.row(t), n, da.row(t));
      p.kernels.add(db.row(t), dy.row(t) + n, m, db.row(t));
    });
  });
  return y;
}

Tensor stack(Pass& p, std::span<const Tensor> parts) {
  const Shape& part = parts.front().shape;
  const auto n = static_cast<std::int64_t>(parts.size());
  if (part.rank() != 3) throw InternalError("stack", "expected tensors of rank 3, got {}", to_string(part));
  const Tensor y = p.tensor({n, part[0], part[1], part[2]});
  for (std::int64_t i = 0; i < n; ++i) {
    const Tensor& x = parts[static_cast<std::size_t>(i)];
    check_same_shape("stack", parts.front(), x);
    p.copy(x.data, x.count(), y.row(i));
  }
  p.record(OpKind::stack, parts, y, [&p, inputs = std::vector<Tensor>(parts.begin(), parts.end()), y] {
    const Tensor dy = p.grad(y);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Tensor dx = p.grad(inputs[i]);
      accumulate(p, {dy.row(static_cast<std::int64_t>(i)), dx.shape}, dx);
    }
  });
  return y;
}

Tensor row_range(Pass& p, const Tensor& x, std::int64_t first, std::int64_t count) {
  const Tensor part = x.row_range(first, count);
  if (!p.is_taped()) return part;
  const Tensor y = p.tensor(part.shape);
  p.copy(part.data, part.count(), y.data);
  p.record(OpKind::row_range, {x}, y,
           [&p, first, count, x, y] { accumulate(p, p.grad(y), p.grad(x).row_range(first, count)); });
  return y;
}

Tensor copy(Pass& p, const Tensor& x) {
  if (!p.is_taped()) return x;
  const Tensor y = p.tensor(x.shape);
  p.copy(x.data, x.count(), y.data);
  p.record(OpKind::copy, {x}, y, [&p, x, y] { accumulate(p, p.grad(y), p.grad(x)); });
  return y;
}

Tensor columns(Pass& p, const Tensor& x, std::int64_t first, std::int64_t count) {
  const Tensor y = p.tensor({x.rows(), count});
  p.for_rows(x.rows(), count, [&](std::int64_t t) { std::copy_n(x.row(t) + first, count, y.row(t)); });
  p.record(OpKind::columns, {x}, y, [&p, first, count, x, y] {  // dx[first + i] = dy[i]
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.for_rows(y.rows(), count, [&](std::int64_t t) {
      float* const to = dx.row(t) + first;
      p.kernels.add(to, dy.row(t), count, to);
    });
  });
  return y;
}

namespace {

Arithmetic activated(Activation activation, const Arithmetic& z) {
  const Arithmetic half(0.5, "0.5");
  switch (activation) {
    case Activation::relu:
      return larger(whole(0), z);
    case Activation::silu:
      return z / (whole(1) + exponential(whole(0) - z));
    case Activation::gelu_erf:
      return half * z * (whole(1) + function("erf", math::erf, z / function("√", std::sqrt, whole(2))));
    case Activation::tanh:
      return function("tanh", math::tanh, z);
    case Activation::relu_squared:
      return squared(larger(whole(0), z));
    case Activation::gelu_tanh:
      break;
  }
  const Arithmetic inner =
      Arithmetic(std::sqrt(2 / 3.14159265358979323846)) * (z + Arithmetic(0.044715, "0.044715") * squared(z) * z);
  return half * z * (whole(1) + function("tanh", math::tanh, inner));
}
std::string activate_formula(const OpView& v) {
  const Activation activation = v.settings<Activation>();
  return activation == Activation::relu           ? "a_{t,i} = max(0, z_{t,i})"
         : activation == Activation::silu         ? "a_{t,i} = {z_{t,i}}/{1 + exp(−z_{t,i})}"
         : activation == Activation::tanh         ? "a_{t,i} = tanh(z_{t,i})"
         : activation == Activation::relu_squared ? "a_{t,i} = max(0, z_{t,i})^{2}"
                                                  : "a_{t,i} = \"GELU\"(z_{t,i})";
}
Cell activate_cell(const OpView& v, std::int64_t i) { return activated(v.settings<Activation>(), v.input(0)[i]); }
bool is_relu(const OpView& v) { return v.settings<Activation>() == Activation::relu; }
Cell activate_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  if (!is_relu(v)) return std::nullopt;
  return Arithmetic(v.gradient()[i]) * whole(v.input(0)[i] > 0 ? 1 : 0);
}

std::string gated_formula(const OpView& v) { return activate_formula(v) + " · u_{t,i}"; }
Cell gated_cell(const OpView& v, std::int64_t i) {
  return activated(v.settings<Activation>(), v.input(0)[i]) * Arithmetic(v.input(1)[i]);
}
Cell gated_gradient_cell(const OpView& v, std::size_t k, std::int64_t i) {
  if (k == 0) return std::nullopt;
  return Arithmetic(v.gradient()[i]) * activated(v.settings<Activation>(), v.input(0)[i]);
}

Cell hadamard_cell(const OpView& v, std::int64_t i) { return Arithmetic(v.input(0)[i]) * Arithmetic(v.input(1)[i]); }
Cell hadamard_gradient_cell(const OpView& v, std::size_t k, std::int64_t i) {
  return Arithmetic(v.gradient()[i]) * Arithmetic(v.input(1 - k)[i]);
}
Cell add_cell(const OpView& v, std::int64_t i) { return Arithmetic(v.input(0)[i]) + Arithmetic(v.input(1)[i]); }

/// The factor that the op has used, computed from the largest element of its input.
Arithmetic factor_of(const OpView& v) {
  const auto smaller = [](float a, float b) { return std::abs(a) < std::abs(b); };
  const auto at =
      std::max_element(v.input(0).values.begin(), v.input(0).values.end(), smaller) - v.input(0).values.begin();
  return Arithmetic(static_cast<double>(v.output()[at]) / static_cast<double>(v.input(0)[at]));
}
Cell scale_cell(const OpView& v, std::int64_t i) { return factor_of(v) * Arithmetic(v.input(0)[i]); }
Cell scale_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  return factor_of(v) * Arithmetic(v.gradient()[i]);
}

Cell softcap_cell(const OpView& v, std::int64_t i) {
  const Arithmetic cap(v.settings<float>());
  return cap * function("tanh", math::tanh, Arithmetic(v.input(0)[i]) / cap);
}

Cell clamp_cell(const OpView& v, std::int64_t i) {
  const auto limit = static_cast<double>(v.settings<float>()), x = static_cast<double>(v.input(0)[i]);
  return std::abs(x) <= limit ? Arithmetic(v.input(0)[i]) : Arithmetic(std::copysign(limit, x));
}
Cell clamp_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  return Arithmetic(v.gradient()[i]) * whole(std::abs(v.input(0)[i]) <= v.settings<float>() ? 1 : 0);
}

constexpr std::string_view kElementwise = "src/ops/elementwise.cpp";

}  // namespace

constexpr OpDescription activate_op{
    kElementwise,
    {activate_formula, activate_cell, same_element},
    {{is_relu, "da_{t,i} \"if\" z_{t,i} > 0, \"else\" 0", "da_{t,i} · act'(z_{t,i})"}, activate_gradient_cell}};
constexpr OpDescription gated_op{
    kElementwise,
    {gated_formula, gated_cell, same_element},
    {"da_{t,i} · act'(z_{t,i}) · u_{t,i}", gated_gradient_cell, "da_{t,i} · act(z_{t,i})"}};
constexpr OpDescription sigmoid_op{kElementwise, {"$y = {1}/{1 + exp(−x)}"}, {"d$y · y · (1 − y)"}};
constexpr OpDescription multiply_rows_op{
    kElementwise, {"$y_{t,i} = f_{t} · x_{t,i}"}, {"f_{t} · d$y_{t,i}", nullptr, "Σ_{i} d$y_{t,i} · x_{t,i}"}};
constexpr OpDescription multiply_columns_op{
    kElementwise, {"$y_{t,i} = x_{t,i} · w_{i}"}, {"w_{i} · d$y_{t,i}"}, {"Σ_{t} x_{t,i} · d$y_{t,i}"}};
constexpr OpDescription hadamard_op{
    kElementwise, {"$y = $a · $b", hadamard_cell, same_element}, {"$b · d$y", hadamard_gradient_cell, "$a · d$y"}};
constexpr OpDescription add_op{
    kElementwise, {"$y = $a + $b", add_cell, same_element, OpDescription::Trail::larger}, kPassedOn};
constexpr OpDescription copy_op{kElementwise, {"$y = x"}, kPassedOn};
constexpr OpDescription scale_op{
    kElementwise, {"$y = s · x", scale_cell, same_element}, {"s · d$y", scale_gradient_cell}};
constexpr OpDescription clamp_op{kElementwise,
                                 {"$y_{t,i} = min(max(x_{t,i}, −c), c)", clamp_cell, same_element},
                                 {"d$y_{t,i} \"if\" −c ≤ x_{t,i} ≤ c, \"else\" 0", clamp_gradient_cell}};
constexpr OpDescription softcap_op{
    kElementwise, {"$y = c · tanh({x}/{c})", softcap_cell, same_element}, {"d$y · (1 − ({y}/{c})^{2})"}};

}  // namespace vitrine
