#include "ops/elementwise.h"

#include <algorithm>

#include "base/error.h"

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
  p.record("add", {a, b}, y, [&p, a, b, y] {  // da = dy, db = dy
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
  p.record("scale", {x}, y, [&p, factor, n, x, y] {  // dx = factor · dy
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.for_rows(x.rows(), n, [&](std::int64_t t) { p.kernels.add_scaled(dy.row(t), n, factor, dx.row(t)); });
  });
  return y;
}

Tensor activate(Pass& p, Activation activation, const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), 8 * n, [&](std::int64_t t) { p.kernels.activate(activation, x.row(t), n, y.row(t)); });
  p.record("activate", {x}, y, [&p, activation, n, x, y] {  // dx = act'(x) · dy
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
  p.record("sigmoid", {x}, y, [&p, x, y] {  // dx = y (1 − y) dy
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.for_rows(x.count(), 4, [&](std::int64_t i) { dx.data[i] += y.data[i] * (1.0f - y.data[i]) * dy.data[i]; });
  });
  return y;
}

Tensor multiply_rows(Pass& p, const Tensor& x, const Tensor& factor) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), n, [&](std::int64_t t) { p.kernels.scale(x.row(t), n, factor.data[t], y.row(t)); });
  p.record("multiply_rows", {x, factor}, y, [&p, n, x, factor, y] {  // dx = factor · dy, dfactor = x · dy
    const Tensor dx = p.grad(x), dfactor = p.grad(factor), dy = p.grad(y);
    p.for_rows(x.rows(), 2 * n, [&](std::int64_t t) {
      p.kernels.add_scaled(dy.row(t), n, factor.data[t], dx.row(t));
      dfactor.data[t] += p.kernels.dot(x.row(t), dy.row(t), n);
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
  p.record("gated", {gate, up}, y, [&p, activation, n, gate, up, y] {
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
  p.record("softcap", {x}, y, [&p, cap, n, x, y] {  // dx = (1 − (y / cap)²) · dy
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

Tensor concat(Pass& p, const Tensor& a, const Tensor& b) {
  const std::int64_t n = a.row_size(), m = b.row_size();
  const Tensor y = p.tensor({a.rows(), n + m});
  p.for_rows(a.rows(), n + m, [&](std::int64_t t) {
    std::copy_n(a.row(t), n, y.row(t));
    std::copy_n(b.row(t), m, y.row(t) + n);
  });
  p.record("concat", {a, b}, y, [&p, n, m, a, b, y] {
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
  p.record("stack", parts, y, [&p, inputs = std::vector<Tensor>(parts.begin(), parts.end()), y] {
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
  p.record("row_range", {x}, y,
           [&p, first, count, x, y] { accumulate(p, p.grad(y), p.grad(x).row_range(first, count)); });
  return y;
}

}  // namespace vitrine
