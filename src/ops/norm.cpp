#include "ops/norm.h"

#include <cmath>

namespace vitrine {

Tensor norm(Pass& p, const NormSite& at, const NormConfig& c, const NormParams& w, const Tensor& x) {
  const bool by_head = x.shape.rank() == 3;
  const std::int64_t d = x.shape[x.shape.rank() - 1];
  const std::int64_t n_rows = x.count() / d;
  const float n = static_cast<float>(d);
  const auto row = [d](const Tensor& of, std::int64_t t) { return of.data + t * d; };

  const Tensor mean = p.tensor({n_rows});
  Tensor scale = p.tensor(by_head ? Shape{x.shape[0], x.shape[1], 1} : Shape{n_rows, 1});
  p.for_rows(n_rows, d, [&](std::int64_t t) {
    mean.data[t] = c.kind == NormConfig::Kind::layer ? p.kernels.sum(row(x, t), d) / n : 0.0f;
    scale.data[t] = std::sqrt(p.kernels.sum_squares(row(x, t), d, mean.data[t]) / n + c.eps);
  });
  scale = p.tap(at.scale, scale);

  Tensor normalized = p.tensor(x.shape);
  p.for_rows(n_rows, d, [&](std::int64_t t) {
    p.kernels.normalize(row(x, t), d, mean.data[t], scale.data[t], row(normalized, t));
  });
  normalized = p.tap(at.normalized, normalized);

  const Tensor y = p.tensor(x.shape);
  const float* weight = p.vector(w.weight);
  const float* bias = w.bias.present() ? p.vector(w.bias) : nullptr;
  p.for_rows(n_rows, d, [&](std::int64_t t) {
    p.kernels.affine(row(normalized, t), weight, c.weight_offset, bias, d, row(y, t));
  });
  return p.tap(at.out, y);
}

}  // namespace vitrine
