#include "ops/norm.h"

#include <cmath>

namespace vitrine {

Tensor norm(Pass& p, const NormSite& at, const NormConfig& c, const NormParams& w, const Tensor& x) {
  const std::int64_t n_rows = x.rows();
  const std::int64_t d = x.row_size();
  const float n = static_cast<float>(d);

  const Tensor mean = p.tensor({n_rows});
  Tensor scale = p.tensor({n_rows, 1});
  p.for_rows(n_rows, d, [&](std::int64_t t) {
    mean.data[t] = c.kind == NormConfig::Kind::layer ? p.kernels.sum(x.row(t), d) / n : 0.0f;
    scale.data[t] = std::sqrt(p.kernels.sum_squares(x.row(t), d, mean.data[t]) / n + c.eps);
  });
  scale = p.tap(at.scale, scale);

  Tensor normalized = p.tensor(x.shape);
  p.for_rows(n_rows, d,
             [&](std::int64_t t) { p.kernels.normalize(x.row(t), d, mean.data[t], scale.data[t], normalized.row(t)); });
  normalized = p.tap(at.normalized, normalized);

  const Tensor y = p.tensor(x.shape);
  const float* weight = p.vector(w.weight);
  const float* bias = w.bias.present() ? p.vector(w.bias) : nullptr;
  p.for_rows(n_rows, d,
             [&](std::int64_t t) { p.kernels.affine(normalized.row(t), weight, c.weight_offset, bias, d, y.row(t)); });
  return p.tap(at.out, y);
}

}  // namespace vitrine
