#include "ops/feature_scaling.h"

#include <cmath>

#include "ops/elementwise.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

constexpr float kScalingEps = 1e-5f;

/// z = (x − shift) / divisor, and what undoes it: r · scale + shift.
struct RowScaling {
  float shift = 0, divisor = 1, scale = 1;

  RowScaling(const Pass& p, const InputScaling& of, const float* x, std::int64_t n) {
    const auto count = static_cast<float>(n);
    if (of.subtracts_mean()) shift = p.kernels.sum(x, n) / count;
    if (of.kind == InputScaling::Kind::layer_norm) {
      scale = std::sqrt(p.kernels.sum_squares(x, n, shift) / (count - 1));
      divisor = scale + kScalingEps;
    } else if (of.kind == InputScaling::Kind::constant_norm) {
      divisor = scale = std::sqrt(p.kernels.sum_squares(x, n, shift)) / std::sqrt(count);
    } else if (of.kind == InputScaling::Kind::factor) {
      divisor = scale = 1 / of.factor;
    }
  }
};

/// dx += the gradient of z(x), given dz.
void add_input_gradient(const Pass& p, const InputScaling& of, const float* x, const float* dz, std::int64_t n,
                        float* dx) {
  const RowScaling own(p, of, x, n);
  const bool is_linear = of.kind == InputScaling::Kind::none || of.kind == InputScaling::Kind::factor;
  if (is_linear && !of.is_centered) return p.kernels.add_scaled(dz, n, 1 / own.divisor, dx);
  const auto count = static_cast<double>(n);
  double mean = 0, along = 0;  // the mean of dz, and Σ dz · (x − μ)
  for (std::int64_t i = 0; i < n; ++i) {
    mean += dz[i] / count;
    along += static_cast<double>(dz[i]) * (x[i] - own.shift);
  }
  const double divisor = own.divisor;
  if (!of.subtracts_mean()) mean = 0;
  // d divisor / dx_i is (x_i − μ) / ((n − 1) s) of layer_norm, (x_i − μ) / (n divisor) of constant_norm.
  const double slope =
      of.kind == InputScaling::Kind::layer_norm ? 1 / ((count - 1) * own.scale) : 1 / (count * divisor);
  const double factor = is_linear || own.scale == 0 ? 0 : -along / (divisor * divisor) * slope;
  for (std::int64_t i = 0; i < n; ++i) {
    dx[i] += static_cast<float>((dz[i] - mean) / divisor + factor * (x[i] - own.shift));
  }
}

}  // namespace

void undo_input_scaling(const Pass& p, const Dictionary& dictionary, const float* x, std::span<float> dz) {
  const auto n = static_cast<std::int64_t>(dz.size());
  const RowScaling own(p, dictionary.scaling, x, n);
  const float mean = dictionary.scaling.subtracts_mean() ? p.kernels.sum(dz.data(), n) / static_cast<float>(n) : 0.0f;
  p.kernels.normalize(dz.data(), n, mean, own.divisor, dz.data());
}

Tensor features_in(Pass& p, const Dictionary& dictionary, const Tensor& x) {
  const InputScaling& scaling = dictionary.scaling;
  const std::int64_t n = x.row_size();
  const Tensor y = p.tensor(x.shape);
  const float* const b = dictionary.subtracted.present() ? p.vector(dictionary.subtracted) : nullptr;
  p.for_rows(x.rows(), 4 * n, [&](std::int64_t t) {
    const RowScaling own(p, scaling, x.row(t), n);
    float* const to = y.row(t);
    p.kernels.normalize(x.row(t), n, own.shift, own.divisor, to);
    for (std::int64_t i = 0; b != nullptr && i < n; ++i) to[i] -= b[i];
  });
  p.record(OpKind::features_in, {x}, y, [&p, scaling, x, y, n] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.for_rows(x.rows(), 8 * n,
               [&](std::int64_t t) { add_input_gradient(p, scaling, x.row(t), dy.row(t), n, dx.row(t)); });
  });
  return y;
}

float output_scale(const Pass& p, const Dictionary& dictionary, const float* x) {
  if (!dictionary.scaling.is_undone) return 1;
  return RowScaling(p, dictionary.scaling, x, dictionary.d_in()).scale;
}

Tensor features_out(Pass& p, const Dictionary& dictionary, const Tensor& r, const Tensor& x) {
  const InputScaling& scaling = dictionary.scaling;
  if (scaling.is_identity() || !scaling.is_undone) return r;
  const std::int64_t n = r.row_size(), n_in = x.row_size();
  const Tensor y = p.tensor(r.shape);
  p.for_rows(r.rows(), 4 * n, [&](std::int64_t t) {
    const RowScaling own(p, scaling, x.row(t), n_in);
    for (std::int64_t i = 0; i < n; ++i) y.row(t)[i] = r.row(t)[i] * own.scale + own.shift;
  });
  // d scale / dx_i is (x_i − μ) / ((n − 1) s) of layer_norm, (x_i − μ) / (n scale) of constant_norm; d μ / dx_i = 1 /
  // n.
  p.record(OpKind::features_out, {r, x}, y, [&p, scaling, r, x, y, n, n_in] {
    const Tensor dr = p.grad(r), dx = p.grad(x), dy = p.grad(y);
    p.for_rows(r.rows(), 8 * n, [&](std::int64_t t) {
      const RowScaling own(p, scaling, x.row(t), n_in);
      p.kernels.add_scaled(dy.row(t), n, own.scale, dr.row(t));
      const bool is_linear = scaling.kind == InputScaling::Kind::none || scaling.kind == InputScaling::Kind::factor;
      if (is_linear && !scaling.is_centered) return;
      double sum = 0, along = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        sum += dy.row(t)[i];
        along += static_cast<double>(dy.row(t)[i]) * r.row(t)[i];
      }
      const double count = static_cast<double>(n_in), direct = scaling.subtracts_mean() ? sum / count : 0;
      const double degrees = scaling.kind == InputScaling::Kind::layer_norm ? count - 1 : count;
      const double slope = is_linear || own.scale == 0 ? 0 : along / (degrees * own.scale);
      for (std::int64_t i = 0; i < n_in; ++i) {
        dx.row(t)[i] += static_cast<float>(direct + slope * (x.row(t)[i] - own.shift));
      }
    });
  });
  return y;
}

}  // namespace vitrine
