#include "ops/gaussian_topk.h"

#include <cmath>

#include "ops/describe.h"

namespace vitrine {
namespace {

/// Mean and deviation of a row.
struct Moments {
  float mean, deviation;

  Moments(const Pass& p, const float* x, std::int64_t n) : mean(p.kernels.sum(x, n) / static_cast<float>(n)) {
    deviation = std::sqrt(p.kernels.sum_squares(x, n, mean) / static_cast<float>(n));
  }
};

}  // namespace

Tensor gaussian_topk(Pass& p, float deviations, const Tensor& x) {
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), 4 * n, [&](std::int64_t t) {
    const Moments of(p, x.row(t), n);
    p.kernels.normalize(x.row(t), n, of.mean + of.deviation * deviations, 1.0f, y.row(t));
    p.kernels.activate(Activation::relu, y.row(t), n, y.row(t));
  });
  p.record({OpKind::gaussian_topk, deviations}, {x}, y, [&p, deviations, n, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    const ArenaScope scope(p.arena);
    const Tensor part = p.tensor(x.shape);
    p.for_rows(x.rows(), 8 * n, [&](std::int64_t t) {
      float *const u = part.row(t), *const to = dx.row(t);
      p.kernels.slope(Activation::relu, y.row(t), n, u);
      p.kernels.multiply(u, dy.row(t), n, u);
      p.kernels.add(to, u, n, to);
      const float mean = p.kernels.sum(u, n) / static_cast<float>(n);
      const Moments of(p, x.row(t), n);
      for (std::int64_t i = 0; i < n; ++i) to[i] -= mean;
      if (of.deviation == 0) return;
      p.kernels.normalize(x.row(t), n, of.mean, of.deviation, u);
      p.kernels.add_scaled(u, n, -mean * deviations, to);
    });
  });
  return y;
}

constexpr OpDescription gaussian_topk_op{"src/ops/gaussian_topk.cpp",
                                         {"$y_{t,i} = max(0, x_{t,i} − μ_{t} − k · σ_{t})"},
                                         {"u − {Σ_{i} u_{i}}/{n} · (1 + k · {x − μ_{t}}/{σ_{t}})"}};

}  // namespace vitrine
