// Ops of elements and of rows: values and gradients against the formula, by complex steps (support/op_check.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/clamped_swiglu.h"
#include "ops/elementwise.h"
#include "ops/formulas.h"
#include "ops/xielu.h"

namespace vitrine::test {
namespace {

TEST(OpGradients, Curves) {
  check_op({.inputs = {{5, 37}},
            .run = [](Pass& p, const Operands& o) { return sigmoid(p, o.x[0]); },
            .formula = each([](const Complex& x) { return 1.0 / (1.0 + std::exp(-x)); }),
            .spread = 8});
  for (const float cap : {0.7f, 30.0f}) {
    check_op({.inputs = {{5, 37}},
              .run = [cap](Pass& p, const Operands& o) { return softcap(p, cap, o.x[0]); },
              .formula = each([cap](const Complex& x) { return reference::softcap(static_cast<double>(cap), x); })});
  }
}

TEST(OpGradients, Clamp) {
  check_op({.inputs = {{5, 37}},
            .run = [](Pass& p, const Operands& o) { return clamp(p, 0.7f, o.x[0]); },
            .formula = each([](const Complex& x) {
              return std::abs(x.real()) <= static_cast<double>(0.7f) ? x : Complex(std::copysign(0.7f, x.real()));
            })});
}

TEST(OpGradients, Copy) {
  check_op({.inputs = {{5, 37}},
            .run = [](Pass& p, const Operands& o) { return copy(p, o.x[0]); },
            .formula = each([](const Complex& x) { return x; })});
}

/// Both curvatures are parameters; the other two numbers are constants of the checkpoint.
TEST(OpGradients, Xielu) {
  static const float kBeta = 0.5f, kEps = -0.25f;
  const auto constant = [](const float& x) {
    Param param;
    param.name = "constant";
    param.shape = Shape{1};
    param.view = {reinterpret_cast<const std::byte*>(&x), DType::f32, 1, 1, 1, 1};
    return param;
  };
  const Param beta = constant(kBeta), eps = constant(kEps);
  const auto softplus = [](const Complex& x) { return std::log(1.0 + std::exp(x)); };
  check_op({.inputs = {{5, 37}},
            .weight = {1},
            .bias = {1},
            .run = [&](Pass& p, const Operands& o) { return xielu(p, o.norm.weight, o.norm.bias, beta, eps, o.x[0]); },
            .formula =
                [&](const All& x) {
                  const Complex positive = softplus(x[1][0]), negative = 0.5 + softplus(x[2][0]);
                  Vector y;
                  for (const Complex& v : x[0]) {
                    const Complex bounded = v.real() < -0.25 ? v : Complex(-0.25);
                    const Complex bend = v.real() > 0 ? Complex(0) : std::exp(bounded) - 1.0 - v;
                    y.push_back((v.real() > 0 ? positive * v * v : negative * bend) + 0.5 * v);
                  }
                  return y;
                }});
}

TEST(OpGradients, ClampedSwiglu) {
  const ClampedSwiglu c{1.0f, 1.702f};
  check_op({.inputs = {{5, 37}, {5, 37}},
            .run = [&](Pass& p, const Operands& o) { return clamped_swiglu(p, c, o.x[0], o.x[1]); },
            .formula =
                [&](const All& x) {
                  const double alpha = static_cast<double>(c.alpha);
                  Vector y;
                  for (std::size_t i = 0; i < x[0].size(); ++i) {
                    const Complex g = x[0][i].real() <= 1 ? x[0][i] : Complex(1);
                    const Complex u = std::abs(x[1][i].real()) <= 1 ? x[1][i] : std::copysign(1.0, x[1][i].real());
                    y.push_back((u + 1.0) * g / (1.0 + std::exp(-alpha * g)));
                  }
                  return y;
                }});
}

TEST(OpGradients, SumsAndProducts) {
  check_op({{{5, 7}, {5, 7}},
            {},
            {},
            [](Pass& p, const Operands& o) { return hadamard(p, o.x[0], o.x[1]); },
            [](const All& x) {
              Vector y = x[0];
              for (std::size_t i = 0; i < y.size(); ++i) y[i] *= x[1][i];
              return y;
            }});

  check_op({{{5, 7}, {5, 7}},
            {},
            {},
            [](Pass& p, const Operands& o) { return add(p, o.x[0], o.x[1]); },
            [](const All& x) {
              Vector y = x[0];
              for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[1][i];
              return y;
            }});
  check_op(
      {{{5, 7}}, {}, {}, [](Pass& p, const Operands& o) { return add(p, o.x[0], o.x[0]); }, each([](const Complex& x) {
         return 2.0 * x;
       })});
  check_op(
      {{{5, 7}}, {}, {}, [](Pass& p, const Operands& o) { return scale(p, -2.5f, o.x[0]); }, each([](const Complex& x) {
         return -2.5 * x;
       })});
  check_op({{{5, 7}, {5, 1}},
            {},
            {},
            [](Pass& p, const Operands& o) { return multiply_rows(p, o.x[0], o.x[1]); },
            [](const All& x) {
              Vector y = x[0];
              for (std::size_t i = 0; i < y.size(); ++i) y[i] *= x[1][i / 7];
              return y;
            }});
}

TEST(OpGradients, ColumnsByNumbers) {
  check_op({.inputs = {{5, 7}},
            .weight = {7},
            .run = [](Pass& p, const Operands& o) { return multiply_columns(p, o.x[0], o.norm.weight); },
            .formula =
                [](const All& x) {
                  Vector y = x[0];
                  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= x[1][i % 7];
                  return y;
                }});
}

TEST(OpGradients, ColumnsOfATensor) {
  check_op({.inputs = {{3, 7}},
            .run = [](Pass& p, const Operands& o) { return columns(p, o.x[0], 2, 4); },
            .formula =
                [](const All& x) {
                  Vector y;
                  for (std::ptrdiff_t row = 0; row < 3; ++row) {
                    y.insert(y.end(), x[0].begin() + 7 * row + 2, x[0].begin() + 7 * row + 6);
                  }
                  return y;
                }});
}

TEST(OpGradients, RowsOfATensor) {
  check_op({{{6, 5}},
            {},
            {},
            [](Pass& p, const Operands& o) { return row_range(p, o.x[0], 2, 3); },
            [](const All& x) { return Vector(x[0].begin() + 10, x[0].begin() + 25); }});
  check_op({{{6, 5}},
            {},
            {},
            [](Pass& p, const Operands& o) {
              return take_rows(p, o.x[0], {4, 0, 4, 4, 1});
            },
            [](const All& x) {
              Vector y;
              for (const std::ptrdiff_t row : {4, 0, 4, 4, 1}) {
                y.insert(y.end(), x[0].begin() + 5 * row, x[0].begin() + 5 * row + 5);
              }
              return y;
            }});
}

TEST(OpGradients, Embeddings) {
  const std::vector<std::int32_t> ids = {3, 0, 3, 6, 3};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check_op({.inputs = {},
              .weight = {7, 5},
              .run = [&](Pass& p, const Operands& o) { return embed(p, o.linear.weight, ids, {2.5f}); },
              .formula =
                  [&](const All& x) {
                    Vector y;
                    for (const std::int32_t id : ids) {
                      for (std::size_t i = 0; i < 5; ++i) y.push_back(2.5 * x[0][static_cast<std::size_t>(id) * 5 + i]);
                    }
                    return y;
                  },
              .weight_dtype = dtype});
  }
  check_op({.inputs = {},
            .weight = {7, 5},
            .run =
                [&](Pass& p, const Operands& o) {
                  return embed_positions(p, o.linear.weight, ids, {2, {}});
                },
            .formula =
                [](const All& x) {  // position 0 is row 2
                  Vector y(x[0].begin() + 10, x[0].begin() + 25);
                  y.insert(y.end(), x[0].begin() + 10, x[0].begin() + 20);
                  return y;
                },
            .lengths = {3, 2}});
}

}  // namespace
}  // namespace vitrine::test
