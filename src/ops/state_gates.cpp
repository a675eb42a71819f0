#include "ops/state_gates.h"

#include <algorithm>
#include <cmath>

#include "ops/linear.h"
#include "ops/op_kind.h"

namespace vitrine {
namespace {

/// x with the bias added to each row: x itself without one.
Tensor biased(Pass& p, const float* bias, const Tensor& x) {
  if (bias == nullptr) return x;
  const Tensor y = p.tensor(x.shape);
  const std::int64_t n = x.row_size();
  p.for_rows(x.rows(), n, [&](std::int64_t t) { p.kernels.add(x.row(t), bias, n, y.row(t)); });
  return y;
}

bool is_within(const StepLimits& limits, float step) { return step >= limits.least && step <= limits.most; }

}  // namespace

Tensor state_steps(Pass& p, const Param& bias, const StepLimits& limits, const Tensor& x) {
  const std::int64_t n = x.row_size();
  const Tensor y = p.tensor(x.shape);
  const float* const b = bias.present() ? p.vector(bias) : nullptr;
  {
    const ArenaScope scope(p.arena);
    const Tensor z = biased(p, b, x);
    p.for_rows(x.rows(), 16 * n, [&](std::int64_t t) {
      float* const to = y.row(t);
      p.kernels.softplus(z.row(t), n, to);
      std::transform(to, to + n, to, [&](float v) { return std::clamp(v, limits.least, limits.most); });
    });
  }
  const Param* const param = bias.present() ? &bias : nullptr;  // an absent one need not live on
  p.record(OpKind::state_steps, {x}, y, [&p, param, limits, b, n, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    const ArenaScope scope(p.arena);
    const Tensor z = biased(p, b, x), dz = p.tensor(x.shape), step = p.tensor(x.shape);
    p.for_rows(x.rows(), 32 * n, [&](std::int64_t t) {
      p.kernels.sigmoid(z.row(t), n, dz.row(t));
      p.kernels.multiply(dz.row(t), dy.row(t), n, dz.row(t));
      p.kernels.softplus(z.row(t), n, step.row(t));
      for (std::int64_t i = 0; i < n; ++i) dz.row(t)[i] = is_within(limits, step.row(t)[i]) ? dz.row(t)[i] : 0.0f;
      p.kernels.add(dx.row(t), dz.row(t), n, dx.row(t));
    });
    if (param != nullptr) add_bias_gradient(p, dz, *param);
  });
  if (p.ledger != nullptr && bias.present()) p.ledger->reads(bias);
  return y;
}

Tensor rates(Pass& p, const Rates& rates) {
  const std::int64_t n = rates.stored.view.rows * rates.stored.view.cols;
  const Tensor a = p.tensor({n});
  const float* const stored = p.vector(rates.stored);
  if (p.shapes_only) return a;
  if (!rates.is_log) {
    std::copy_n(stored, n, a.data);
    return a;
  }
  p.kernels.exp_sum(stored, n, 0.0f, a.data);
  p.kernels.scale(a.data, n, -1.0f, a.data);
  return a;
}

void add_rate_gradient(Pass& p, const Rates& of, const Tensor& dA) {
  const Tensor to = p.grad(of.stored);
  if (to.data == nullptr) return;
  const std::int64_t n = dA.count();
  if (!of.is_log) {
    p.for_rows(n, 1, [&](std::int64_t i) { to.data[i] += dA.data[i]; });
    return;
  }
  const ArenaScope scope(p.arena);
  const Tensor a = rates(p, of);  // d A / d log(−A) = A
  p.for_rows(n, 2, [&](std::int64_t i) { to.data[i] += a.data[i] * dA.data[i]; });
}

Tensor log_decays(Pass& p, const Rates& of, const Tensor& steps) {
  const std::int64_t n_heads = of.stored.view.rows * of.stored.view.cols, n = steps.row_size() / n_heads;
  const Tensor y = p.tensor(steps.shape);
  {
    const ArenaScope scope(p.arena);
    const Tensor a = rates(p, of);
    p.for_rows(steps.rows(), steps.row_size(), [&](std::int64_t t) {
      for (std::int64_t h = 0; h < n_heads; ++h) {
        p.kernels.scale(steps.row(t) + h * n, n, a.data[h], y.row(t) + h * n);
      }
    });
  }
  p.record(OpKind::log_decays, {steps}, y, [&p, &stored = of.stored, is_log = of.is_log, n_heads, n, steps, y] {
    const Rates own{stored, is_log};
    const Tensor dsteps = p.grad(steps), dy = p.grad(y);
    const ArenaScope scope(p.arena);
    const Tensor a = rates(p, own), dA = p.filled({n_heads}, 0.0f);
    p.for_rows(n_heads, 4 * n * steps.rows(), [&](std::int64_t h) {
      for (std::int64_t t = 0; t < steps.rows(); ++t) {
        const float* const g = dy.row(t) + h * n;
        p.kernels.add_scaled(g, n, a.data[h], dsteps.row(t) + h * n);
        dA.data[h] += p.kernels.dot(steps.row(t) + h * n, g, n);
      }
    });
    add_rate_gradient(p, own, dA);
  });
  if (p.ledger != nullptr) p.ledger->reads(of.stored);
  return y;
}

Tensor scale_values(Pass& p, const Tensor& steps, const Tensor& x) {
  const std::int64_t width = x.row_size(), n = width / steps.row_size(), n_steps = steps.row_size();
  const Tensor y = p.tensor(x.shape);
  const auto each = [&p, n_steps](std::int64_t rows, std::int64_t cost, auto&& body) {
    p.for_rows(rows, cost, [&](std::int64_t t) {
      for (std::int64_t h = 0; h < n_steps; ++h) body(t, h);
    });
  };
  if (n == 1) {
    p.for_rows(x.rows(), width, [&](std::int64_t t) { p.kernels.multiply(steps.row(t), x.row(t), width, y.row(t)); });
  } else {
    each(x.rows(), width, [&](std::int64_t t, std::int64_t h) {
      p.kernels.scale(x.row(t) + h * n, n, steps.row(t)[h], y.row(t) + h * n);
    });
  }
  p.record(OpKind::scale_values, {steps, x}, y, [&p, each, n, width, steps, x, y] {
    const Tensor dsteps = p.grad(steps), dx = p.grad(x), dy = p.grad(y);
    if (n == 1) {
      p.for_rows(x.rows(), 2 * width, [&](std::int64_t t) {
        p.kernels.multiply_add(steps.row(t), dy.row(t), width, dx.row(t));
        p.kernels.multiply_add(x.row(t), dy.row(t), width, dsteps.row(t));
      });
      return;
    }
    each(x.rows(), 2 * width, [&](std::int64_t t, std::int64_t h) {
      p.kernels.add_scaled(dy.row(t) + h * n, n, steps.row(t)[h], dx.row(t) + h * n);
      dsteps.row(t)[h] += p.kernels.dot(x.row(t) + h * n, dy.row(t) + h * n, n);
    });
  });
  return y;
}

Tensor add_skipped(Pass& p, const Param& w, const Tensor& x, const Tensor& z) {
  const std::int64_t width = x.row_size(), n_heads = w.shape.count(), n = width / n_heads;
  const Tensor y = p.tensor(x.shape);
  const float* const factors = p.vector(w);
  p.for_rows(x.rows(), 2 * width, [&](std::int64_t t) {
    std::copy_n(z.row(t), width, y.row(t));
    if (n == 1) return p.kernels.multiply_add(factors, x.row(t), width, y.row(t));
    for (std::int64_t h = 0; h < n_heads; ++h) {
      p.kernels.add_scaled(x.row(t) + h * n, n, factors[h], y.row(t) + h * n);
    }
  });
  p.record(OpKind::add_skipped, {x, z}, y, [&p, &w, factors, n_heads, n, width, x, z, y] {
    const Tensor dx = p.grad(x), dz = p.grad(z), dy = p.grad(y), dw = p.grad(w);
    p.for_rows(x.rows(), 3 * width, [&](std::int64_t t) {
      p.kernels.add(dz.row(t), dy.row(t), width, dz.row(t));
      if (n == 1) return p.kernels.multiply_add(factors, dy.row(t), width, dx.row(t));
      for (std::int64_t h = 0; h < n_heads; ++h) {
        p.kernels.add_scaled(dy.row(t) + h * n, n, factors[h], dx.row(t) + h * n);
      }
    });
    if (dw.data == nullptr) return;
    if (n == 1) {
      return p.for_columns(width, x.rows(), [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t t = 0; t < x.rows(); ++t) {
          p.kernels.multiply_add(x.row(t) + first, dy.row(t) + first, count, dw.data + first);
        }
      });
    }
    p.for_rows(n_heads, 2 * n * x.rows(), [&](std::int64_t h) {
      for (std::int64_t t = 0; t < x.rows(); ++t) {
        dw.data[h] += p.kernels.dot(x.row(t) + h * n, dy.row(t) + h * n, n);
      }
    });
  });
  if (p.ledger != nullptr) p.ledger->reads(w);
  return y;
}

Tensor unit_vectors(Pass& p, float eps, float factor, const Tensor& x) {
  const std::int64_t d = x.shape[x.shape.rank() - 1], n = x.count() / d;
  const Tensor y = p.tensor(x.shape);
  const auto divisor = [&p, eps, d, x](std::int64_t i) {
    return std::sqrt(p.kernels.sum_squares(x.data + i * d, d, 0.0f) + eps);
  };
  p.for_rows(n, 3 * d,
             [&](std::int64_t i) { p.kernels.scale(x.data + i * d, d, factor / divisor(i), y.data + i * d); });
  p.record(OpKind::unit_vectors, {x}, y, [&p, divisor, factor, d, n, x, y] {
    const Tensor dx = p.grad(x), dy = p.grad(y);
    p.for_rows(n, 6 * d, [&](std::int64_t i) {
      const float *const from = x.data + i * d, *const g = dy.data + i * d;
      const float r = divisor(i), s = p.kernels.dot(from, g, d);
      p.kernels.add_scaled(g, d, factor / r, dx.data + i * d);
      p.kernels.add_scaled(from, d, -factor * s / (r * r * r), dx.data + i * d);
    });
  });
  return y;
}

}  // namespace vitrine
