#include "ops/xielu.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "ops/describe.h"

namespace vitrine {
namespace {

double number_in(Pass& p, const Param& param) { return p.shapes_only ? 0.0 : static_cast<double>(*p.vector(param)); }

double softplus(double x) { return std::max(x, 0.0) + math::log(1 + math::exp(-std::abs(x))); }
double sigmoid(double x) { return 1 / (1 + math::exp(-x)); }

/// The factors of a row's three parts.
struct Curve {
  double alpha_p, alpha_n;
  float beta, eps;

  float positive() const { return static_cast<float>(softplus(alpha_p)); }
  float negative() const { return static_cast<float>(static_cast<double>(beta) + softplus(alpha_n)); }
};

/// Adds a gradient to that of a parameter, if it is trained.
void add_gradient(Pass& p, const Param& param, double gradient) {
  const Tensor to = p.grad(param);
  if (to.data != nullptr && !p.shapes_only) *to.data += static_cast<float>(gradient);
}

void xielu_backward(Pass& p, const Param& alpha_p, const Param& alpha_n, const Curve& c, const Tensor& x,
                    const Tensor& y) {
  const std::int64_t n = x.row_size();
  const Tensor dx = p.grad(x), dy = p.grad(y);
  const ArenaScope scope(p.arena);
  const Tensor slope = p.tensor(x.shape), part = p.tensor(x.shape), sums = p.tensor({x.rows(), 2});
  p.for_rows(x.rows(), 40 * n, [&](std::int64_t t) {
    float *const to = slope.row(t), *const of_part = part.row(t);
    std::fill_n(to, n, c.beta);
    p.kernels.slope(Activation::relu_squared, x.row(t), n, of_part);
    p.kernels.add_scaled(of_part, n, c.positive(), to);
    p.kernels.bend_slope(x.row(t), n, c.eps, of_part);
    p.kernels.add_scaled(of_part, n, c.negative(), to);
    p.kernels.multiply_add(to, dy.row(t), n, dx.row(t));
    p.kernels.activate(Activation::relu_squared, x.row(t), n, of_part);
    sums.row(t)[0] = p.kernels.dot(of_part, dy.row(t), n);
    p.kernels.bend(x.row(t), n, c.eps, of_part);
    sums.row(t)[1] = p.kernels.dot(of_part, dy.row(t), n);
  });
  double positive = 0, negative = 0;
  for (std::int64_t t = 0; t < x.rows() && !p.shapes_only; ++t) {
    positive += static_cast<double>(sums.row(t)[0]);
    negative += static_cast<double>(sums.row(t)[1]);
  }
  add_gradient(p, alpha_p, sigmoid(c.alpha_p) * positive);
  add_gradient(p, alpha_n, sigmoid(c.alpha_n) * negative);
}

}  // namespace

Tensor xielu(Pass& p, const Param& alpha_p, const Param& alpha_n, const Param& beta, const Param& eps,
             const Tensor& x) {
  const std::int64_t n = x.row_size();
  const Tensor y = p.tensor(x.shape);
  const Curve c{number_in(p, alpha_p), number_in(p, alpha_n), static_cast<float>(number_in(p, beta)),
                static_cast<float>(number_in(p, eps))};
  {
    const ArenaScope scope(p.arena);
    const Tensor part = p.tensor(x.shape);
    p.for_rows(x.rows(), 16 * n, [&](std::int64_t t) {
      p.kernels.scale(x.row(t), n, c.beta, y.row(t));
      p.kernels.activate(Activation::relu_squared, x.row(t), n, part.row(t));
      p.kernels.add_scaled(part.row(t), n, c.positive(), y.row(t));
      p.kernels.bend(x.row(t), n, c.eps, part.row(t));
      p.kernels.add_scaled(part.row(t), n, c.negative(), y.row(t));
    });
  }
  p.record(OpKind::xielu, {x}, y, [&p, &alpha_p, &alpha_n, c, x, y] { xielu_backward(p, alpha_p, alpha_n, c, x, y); });
  if (p.ledger != nullptr) p.ledger->charge({.weights = 4});
  return y;
}

constexpr OpDescription xielu_op{
    "src/ops/xielu.cpp",
    {"$y = \"a\"_{p} · x^{2} + β · x \"if\" x > 0, \"else\" \"a\"_{n} · (exp(x) − 1 − x) + β · x"},
    {"d$y · y'"}};

}  // namespace vitrine
