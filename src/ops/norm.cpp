#include "ops/norm.h"

#include <cmath>

namespace vitrine {
namespace {

/// x `[T, d]` or `[T, n, d]` as rows of d elements.
struct Rows {
  std::int64_t n, d;

  explicit Rows(const Tensor& x) : n(x.count() / x.shape[x.shape.rank() - 1]), d(x.shape[x.shape.rank() - 1]) {}
  float* row(const Tensor& of, std::int64_t t) const { return of.data + t * d; }
};

/// mean[t] = mean of row t, or 0 for RMSNorm: `[rows]`.
Tensor means(Pass& p, const NormConfig& c, const Tensor& x) {
  const Rows rows(x);
  const Tensor mean = p.tensor({rows.n});
  p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
    const bool centered = c.kind == NormConfig::Kind::layer;
    mean.data[t] = centered ? p.kernels.sum(rows.row(x, t), rows.d) / static_cast<float>(rows.d) : 0.0f;
  });
  return mean;
}

/// scale = √(Σ (x − mean)² / d + eps)
Tensor divisors(Pass& p, const NormConfig& c, const Tensor& x, const Tensor& mean) {
  const Rows rows(x);
  const auto d = static_cast<float>(rows.d);
  const Tensor scale = p.tensor(x.shape.rank() == 3 ? Shape{x.shape[0], x.shape[1], 1} : Shape{rows.n, 1});
  p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
    scale.data[t] = std::sqrt(p.kernels.sum_squares(rows.row(x, t), rows.d, mean.data[t]) / d + c.eps);
  });
  // d scale / d x = (x − mean) / (d · scale); the mean's own part is 0, as Σ (x − mean) is.
  p.record("norm_scale", {x}, scale, [&p, rows, d, x, mean, scale] {
    const Tensor dx = p.grad(x), dscale = p.grad(scale);
    const ArenaScope scope(p.arena);
    const Tensor centered = p.tensor({rows.n, rows.d});
    p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
      p.kernels.normalize(rows.row(x, t), rows.d, mean.data[t], d * scale.data[t], centered.row(t));
      p.kernels.add_scaled(centered.row(t), rows.d, dscale.data[t], rows.row(dx, t));
    });
  });
  return scale;
}

/// normalized = (x − mean) / scale
Tensor divided(Pass& p, const NormConfig& c, const Tensor& x, const Tensor& mean, const Tensor& scale) {
  const Rows rows(x);
  const Tensor y = p.tensor(x.shape);
  p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
    p.kernels.normalize(rows.row(x, t), rows.d, mean.data[t], scale.data[t], rows.row(y, t));
  });
  // dx = dy / scale, less its mean where the mean was taken off; dscale = −Σ dy · y / scale
  const bool centered = c.kind == NormConfig::Kind::layer;
  p.record("norm_divide", {x, scale}, y, [&p, rows, centered, x, scale, y] {
    const Tensor dx = p.grad(x), dscale = p.grad(scale), dy = p.grad(y);
    const ArenaScope scope(p.arena);
    const Tensor divided = p.tensor({rows.n, rows.d});
    p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
      float* const g = divided.row(t);
      dscale.data[t] -= p.kernels.dot(rows.row(dy, t), rows.row(y, t), rows.d) / scale.data[t];
      p.kernels.normalize(rows.row(dy, t), rows.d, 0.0f, scale.data[t], g);
      if (centered) p.kernels.normalize(g, rows.d, p.kernels.sum(g, rows.d) / static_cast<float>(rows.d), 1.0f, g);
      p.kernels.add(rows.row(dx, t), g, rows.d, rows.row(dx, t));
    });
  });
  return y;
}

/// y = x · (weight_offset + w) + b
Tensor weighted(Pass& p, const NormConfig& c, const NormParams& w, const Tensor& x) {
  const Rows rows(x);
  const Tensor y = p.tensor(x.shape);
  const float* weight = p.vector(w.weight);
  const float* bias = w.bias.present() ? p.vector(w.bias) : nullptr;
  const std::int64_t n_weights = w.weight.view.cols / rows.d;
  const auto offset_of = [n_weights, d = rows.d](std::int64_t t) { return t % n_weights * d; };
  p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
    const float* const b = bias != nullptr ? bias + offset_of(t) : nullptr;
    p.kernels.affine(rows.row(x, t), weight + offset_of(t), c.weight_offset, b, rows.d, rows.row(y, t));
  });
  // dx = dy · (weight_offset + w); dw = Σ_t dy · x; db = Σ_t dy
  p.record("norm_weight", {x}, y, [&p, &w, rows, offset_of, w_offset = c.weight_offset, weight, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y), dw = p.grad(w.weight), db = p.grad(w.bias);
    const ArenaScope scope(p.arena);
    const Tensor product = p.tensor({rows.n, rows.d});
    p.for_rows(rows.n, rows.d, [&](std::int64_t t) {
      p.kernels.affine(rows.row(dy, t), weight + offset_of(t), w_offset, nullptr, rows.d, product.row(t));
      p.kernels.add(rows.row(dx, t), product.row(t), rows.d, rows.row(dx, t));
    });
    p.for_columns(rows.d, rows.n, [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t t = 0; t < rows.n; ++t) {
        const float* const g = rows.row(dy, t) + first;
        const std::int64_t to = offset_of(t) + first;
        if (dw.data != nullptr) p.kernels.multiply_add(g, rows.row(x, t) + first, count, dw.data + to);
        if (db.data != nullptr) p.kernels.add(db.data + to, g, count, db.data + to);
      }
    });
  });
  if (p.ledger != nullptr) {
    p.ledger->reads(w.weight);
    if (bias != nullptr) p.ledger->reads(w.bias);
  }
  return y;
}

}  // namespace

Tensor norm(Pass& p, const NormSite& at, const NormConfig& c, const NormParams& w, const Tensor& x) {
  const Tensor mean = means(p, c, x);
  const Tensor scale = p.tap(at.scale, divisors(p, c, x, mean));
  const Tensor normalized = p.tap(at.normalized, divided(p, c, x, mean, scale));
  return p.tap(at.out, weighted(p, c, w, normalized));
}

}  // namespace vitrine
