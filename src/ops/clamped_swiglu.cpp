#include "ops/clamped_swiglu.h"

#include <algorithm>
#include <cmath>

#include "ops/describe.h"

namespace vitrine {
namespace {

/// Of one row: the clamped gate, the clamped up projection plus 1, and the sigmoid; `n` elements each.
struct Halves {
  float *gate, *up, *sigmoid;
};

void fill(const Pass& p, const ClampedSwiglu& c, const float* gate, const float* up, std::int64_t n, const Halves& to) {
  for (std::int64_t i = 0; i < n; ++i) {
    to.gate[i] = std::min(gate[i], c.limit);
    to.up[i] = std::clamp(up[i], -c.limit, c.limit) + 1.0f;
  }
  p.kernels.scale(to.gate, n, c.alpha, to.sigmoid);
  p.kernels.sigmoid(to.sigmoid, n, to.sigmoid);
}

/// Memory for the halves of all rows.
Tensor scratch_of(Pass& p, const Tensor& x) { return p.tensor({x.rows(), 3, x.row_size()}); }
Halves halves_in(const Tensor& scratch, std::int64_t t) {
  float* const first = scratch.row(t);
  const std::int64_t n = scratch.shape[2];
  return {first, first + n, first + 2 * n};
}

}  // namespace

Tensor clamped_swiglu(Pass& p, const ClampedSwiglu& c, const Tensor& gate, const Tensor& up) {
  const Tensor y = p.tensor(gate.shape);
  const std::int64_t n = gate.row_size();
  {
    const ArenaScope scope(p.arena);
    const Tensor scratch = scratch_of(p, gate);
    p.for_rows(gate.rows(), 16 * n, [&](std::int64_t t) {
      const Halves h = halves_in(scratch, t);
      fill(p, c, gate.row(t), up.row(t), n, h);
      p.kernels.multiply(h.gate, h.sigmoid, n, h.gate);
      p.kernels.multiply(h.up, h.gate, n, y.row(t));
    });
  }
  p.record(OpKind::clamped_swiglu, {gate, up}, y, [&p, &c, n, gate, up, y] {
    const Tensor dgate = p.grad(gate), dup = p.grad(up), dy = p.grad(y);
    const ArenaScope scope(p.arena);
    const Tensor scratch = scratch_of(p, gate);
    p.for_rows(gate.rows(), 32 * n, [&](std::int64_t t) {
      const Halves h = halves_in(scratch, t);
      fill(p, c, gate.row(t), up.row(t), n, h);
      const float *const g = gate.row(t), *const u = up.row(t), *const d = dy.row(t);
      float *const to_gate = dgate.row(t), *const to_up = dup.row(t);
      for (std::int64_t i = 0; i < n; ++i) {
        const float s = h.sigmoid[i];
        if (g[i] <= c.limit) to_gate[i] += h.up[i] * s * (1.0f + c.alpha * h.gate[i] * (1.0f - s)) * d[i];
        if (std::abs(u[i]) <= c.limit) to_up[i] += h.gate[i] * s * d[i];
      }
    });
  });
  return y;
}

constexpr OpDescription clamped_swiglu_op{
    "src/ops/clamped_swiglu.cpp",
    {"a_{t,i} = (u'_{t,i} + 1) · {z'_{t,i}}/{1 + exp(−α · z'_{t,i})}"},
    {"da_{t,i} · (u'_{t,i} + 1) · act'(z'_{t,i})", nullptr, "da_{t,i} · act(z'_{t,i})"}};

}  // namespace vitrine
