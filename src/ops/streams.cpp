#include "ops/streams.h"

#include <algorithm>
#include <cmath>

#include "ops/describe.h"

namespace vitrine {
namespace {

constexpr float kLeastMeanSquare = 1e-5f;

float mean_square(const Pass& p, const float* x, std::int64_t n) {
  return p.kernels.sum_squares(x, n, 0.0f) / static_cast<float>(n);
}

void charge(Pass& p, std::int64_t multiply_adds) {
  const double flops = 2 * static_cast<double>(multiply_adds);
  if (p.ledger != nullptr) p.ledger->charge({.flops = flops, .visible_flops = flops});
}

void predict_backward(Pass& p, std::int64_t n, std::int64_t d, const Tensor& x, const Tensor& coefs, const Tensor& y) {
  const Tensor dx = p.grad(x), dcoefs = p.grad(coefs), dy = p.grad(y);
  p.for_rows(x.rows(), 4 * n * n * d, [&](std::int64_t t) {
    const float *const c = coefs.row(t), *const from = x.row(t), *const g = dy.row(t);
    float *const to = dx.row(t), *const dc = dcoefs.row(t);
    for (std::int64_t a = 0; a < n; ++a) {
      p.kernels.add(to + a * d, g + a * d, d, to + a * d);
      for (std::int64_t b = 0; b < n; ++b) {
        p.kernels.add_scaled(g + b * d, d, c[b * n + a], to + a * d);
        dc[b * n + a] += p.kernels.dot(from + a * d, g + b * d, d);
      }
    }
  });
}

void correct_backward(Pass& p, std::int64_t active, const Tensor& x, const Tensor& coefs, const Tensor& made,
                      const Tensor& y) {
  const Tensor dx = p.grad(x), dcoefs = p.grad(coefs), dmade = p.grad(made), dy = p.grad(y);
  const std::int64_t n = coefs.row_size(), d = made.row_size();
  const ArenaScope scope(p.arena);
  const Tensor scratch = p.tensor({x.rows(), 2, d});
  p.for_rows(x.rows(), 6 * n * d, [&](std::int64_t t) {
    const float *const c = coefs.row(t), *const g = dy.row(t);
    float *const to = dx.row(t), *const change = scratch.row(t), *const sum = change + d;
    std::copy_n(made.row(t), d, change);
    p.kernels.add_scaled(x.row(t) + active * d, d, -1.0f, change);
    std::fill_n(sum, d, 0.0f);
    for (std::int64_t b = 0; b < n; ++b) {
      p.kernels.add_scaled(g + b * d, d, 1.0f + c[b], sum);
      dcoefs.row(t)[b] += p.kernels.dot(change, g + b * d, d);
    }
    p.kernels.add(to, g, n * d, to);
    p.kernels.add_scaled(sum, d, -1.0f, to + active * d);
    p.kernels.add(dmade.row(t), sum, d, dmade.row(t));
  });
}

}  // namespace

Tensor predict_streams(Pass& p, const Tensor& x, const Tensor& coefs) {
  const auto n = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(coefs.row_size()))));
  const std::int64_t d = x.row_size() / n;
  const Tensor y = p.tensor({x.rows(), n * d});
  p.for_rows(x.rows(), 2 * n * n * d, [&](std::int64_t t) {
    const float *const c = coefs.row(t), *const from = x.row(t);
    for (std::int64_t b = 0; b < n; ++b) {
      float* const to = y.row(t) + b * d;
      p.kernels.scale(from, d, c[b * n], to);
      for (std::int64_t a = 1; a < n; ++a) p.kernels.add_scaled(from + a * d, d, c[b * n + a], to);
      p.kernels.add(to, from + b * d, d, to);
    }
  });
  p.record(OpKind::predict_streams, {x, coefs}, y, [&p, n, d, x, coefs, y] { predict_backward(p, n, d, x, coefs, y); });
  charge(p, x.rows() * n * n * d);
  return y;
}

Tensor correct_streams(Pass& p, const Tensor& x, const Tensor& coefs, const Tensor& made, std::int64_t active) {
  const std::int64_t n = coefs.row_size(), d = made.row_size();
  const Tensor y = p.tensor({x.rows(), n * d});
  {
    const ArenaScope scope(p.arena);
    const Tensor changes = p.tensor(made.shape);
    p.for_rows(x.rows(), 3 * n * d, [&](std::int64_t t) {
      float* const change = changes.row(t);
      std::copy_n(made.row(t), d, change);
      p.kernels.add_scaled(x.row(t) + active * d, d, -1.0f, change);
      std::copy_n(x.row(t), n * d, y.row(t));
      for (std::int64_t b = 0; b < n; ++b) p.kernels.add_scaled(change, d, 1.0f + coefs.row(t)[b], y.row(t) + b * d);
    });
  }
  p.record(OpKind::correct_streams, {x, coefs, made}, y,
           [&p, active, x, coefs, made, y] { correct_backward(p, active, x, coefs, made, y); });
  charge(p, x.rows() * n * d);
  return y;
}

Tensor add_to_streams(Pass& p, const Tensor& x, const Tensor& added, std::int64_t first) {
  const std::int64_t d = added.row_size(), n = x.row_size() / d;
  const Tensor y = p.tensor({x.rows(), n * d});
  p.for_rows(x.rows(), n * d, [&](std::int64_t t) {
    std::copy_n(x.row(t), first * d, y.row(t));
    for (std::int64_t b = first; b < n; ++b) {
      p.kernels.add(x.row(t) + b * d, added.row(t), d, y.row(t) + b * d);
    }
  });
  p.record(OpKind::add_to_streams, {x, added}, y, [&p, first, n, d, x, added, y] {  // dx = dy, dadded = Σ_b dy_b
    const Tensor dx = p.grad(x), dadded = p.grad(added), dy = p.grad(y);
    p.for_rows(x.rows(), 2 * n * d, [&](std::int64_t t) {
      p.kernels.add(dx.row(t), dy.row(t), n * d, dx.row(t));
      for (std::int64_t b = first; b < n; ++b) {
        p.kernels.add(dadded.row(t), dy.row(t) + b * d, d, dadded.row(t));
      }
    });
  });
  return y;
}

Tensor match_magnitude(Pass& p, const Tensor& x, const Tensor& like) {
  const std::int64_t n = x.row_size();
  const Tensor y = p.tensor(x.shape);
  p.for_rows(x.rows(), 4 * n, [&](std::int64_t t) {
    const float own = std::sqrt(std::max(mean_square(p, x.row(t), n), kLeastMeanSquare));
    p.kernels.scale(x.row(t), n, std::sqrt(mean_square(p, like.row(t), n)), y.row(t));
    p.kernels.normalize(y.row(t), n, 0.0f, own, y.row(t));
  });
  p.record(OpKind::match_magnitude, {x, like}, y, [&p, n, x, like, y] {
    const Tensor dx = p.grad(x), dlike = p.grad(like), dy = p.grad(y);
    p.for_rows(x.rows(), 8 * n, [&](std::int64_t t) {
      const float square = mean_square(p, x.row(t), n);
      const float m = std::sqrt(mean_square(p, like.row(t), n)), q = std::sqrt(std::max(square, kLeastMeanSquare));
      const float s = p.kernels.dot(x.row(t), dy.row(t), n) / static_cast<float>(n);
      if (m > 0) p.kernels.add_scaled(like.row(t), n, s / (m * q), dlike.row(t));
      p.kernels.add_scaled(dy.row(t), n, m / q, dx.row(t));
      if (square >= kLeastMeanSquare) p.kernels.add_scaled(x.row(t), n, -s * m / (q * q * q), dx.row(t));
    });
  });
  return y;
}

namespace {
constexpr std::string_view kStreams = "src/ops/streams.cpp";
}  // namespace

constexpr OpDescription predict_streams_op{
    kStreams,
    {"$y_{t,b} = x_{t,b} + Σ_{a} c_{t,b,a} · x_{t,a}"},
    {"d$y_{t,a} + Σ_{b} c_{t,b,a} · d$y_{t,b}", nullptr, "Σ_{i} x_{t,a,i} · d$y_{t,b,i}"}};
constexpr OpDescription correct_streams_op{
    kStreams, {"$y_{t,b} = x_{t,b} + (1 + c_{t,b}) · (a_{t} − x_{t})"}, {"d$y_{t,b}", nullptr, "(1 + c_{t,b}) · d$y"}};
constexpr OpDescription add_to_streams_op{
    kStreams, {"$y_{t,b} = x_{t,b} + a_{t}"}, {"d$y_{t,b}", nullptr, "Σ_{b} d$y_{t,b}"}};
constexpr OpDescription match_magnitude_op{kStreams,
                                           {"$y_{t,i} = x_{t,i} · {√(\"mean\" $b_{t}^{2})}/{√(\"mean\" x_{t}^{2})}"},
                                           {"d$y · {m_{t}}/{q_{t}} − x · {m_{t}}/{q_{t}^{3}} · \"mean\" x · d$y"}};

}  // namespace vitrine
