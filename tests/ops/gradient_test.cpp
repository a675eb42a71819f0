// All ops except attention: values and gradients against the formula, by complex steps (support/op_check.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/embed.h"
#include "ops/formulas.h"
#include "ops/loss.h"
#include "ops/query_scale.h"
#include "ops/route.h"
#include "ops/unfold.h"

namespace vitrine::test {
namespace {

constexpr Activation kActivations[] = {Activation::relu,     Activation::silu, Activation::gelu_tanh,
                                       Activation::gelu_erf, Activation::tanh, Activation::relu_squared};

TEST(OpGradients, LinearOfFewAndManyRows) {
  const auto run = [](Pass& p, const Operands& o) { return linear(p, o.linear, o.x[0]); };
  const auto formula = [](const All& x) { return reference::linear(x[0], x[1], x.size() > 2 ? x[2] : Vector(), 20); };
  for (const std::int64_t rows : {1, 3, 21}) {
    SCOPED_TRACE(rows);
    check_op({{{rows, 20}}, {9, 20}, {9}, run, formula});
    check_op({{{rows, 20}}, {9, 20}, {}, run, formula});
    check_op(
        {.inputs = {{rows, 20}}, .weight = {9, 20}, .bias = {9}, .run = run, .formula = formula, .transposed = true});
  }
}

TEST(OpGradients, LinearOfRoundedWeights) {
  const auto run = [](Pass& p, const Operands& o) { return linear(p, o.linear, o.x[0]); };
  const auto formula = [](const All& x) { return reference::linear(x[0], x[1], Vector(), 20); };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool transposed : {false, true}) {
      check_op({.inputs = {{5, 20}},
                .weight = {9, 20},
                .run = run,
                .formula = formula,
                .weight_dtype = dtype,
                .transposed = transposed});
    }
  }
}

/// Σ_k a[i, k] · b[k, j] in double precision, of strided matrices.
std::vector<double> product(const std::vector<float>& a, std::size_t a_row, std::size_t a_col,
                            const std::vector<float>& b, std::size_t b_row, std::size_t b_col, std::size_t rows,
                            std::size_t inner, std::size_t cols) {
  std::vector<double> c(rows * cols);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < inner; ++k) {
      const auto factor = static_cast<double>(a[i * a_row + k * a_col]);
      for (std::size_t j = 0; j < cols; ++j) c[i * cols + j] += factor * static_cast<double>(b[k * b_row + j * b_col]);
    }
  }
  return c;
}

void expect_near(const std::vector<float>& gradient, const std::vector<double>& expected) {
  double largest = 0;
  for (const double v : expected) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < expected.size(); ++i) {  // the initial value was 0.5
    ASSERT_NEAR(static_cast<double>(gradient[i]), expected[i] + 0.5, 1e-5 * largest) << i;
  }
}

/// Large enough that dw is computed in blocks of rows and the work is divided among threads.
TEST(OpGradients, LargeLinear) {
  constexpr std::size_t kRows = 70, kIn = 64, kOut = 1700;
  const OpCase c{.inputs = {{kRows, kIn}},
                 .weight = {kOut, kIn},
                 .bias = {kOut},
                 .run = [](Pass& p, const Operands& o) { return linear(p, o.linear, o.x[0]); },
                 .formula = {}};
  const OpRun one = run_op(c, 1), three = run_op(c, 3);
  EXPECT_TRUE(same_bits(one.result, three.result));
  for (std::size_t i = 0; i < one.gradients.size(); ++i)
    EXPECT_TRUE(same_bits(one.gradients[i], three.gradients[i])) << i;
  const std::vector<float>&x = one.operands[0], &w = one.operands[1], &dy = one.result_gradient;
  expect_near(one.gradients[0], product(dy, kOut, 1, w, kIn, 1, kRows, kOut, kIn));
  expect_near(one.gradients[1], product(dy, 1, kOut, x, kIn, 1, kOut, kRows, kIn));
  expect_near(one.gradients[2], product(dy, 1, kOut, std::vector<float>(kRows, 1.0f), 1, 1, kOut, kRows, 1));
}

TEST(OpGradients, Norms) {
  for (const NormConfig::Kind kind : {NormConfig::Kind::rms, NormConfig::Kind::layer}) {
    for (const float offset : {0.0f, 1.0f}) {
      for (const bool bias : {false, true}) {
        const auto check = [&](const Shape& shape, std::int64_t n_weights) {
          const NormConfig c{kind, 1e-2f, offset, bias};
          SCOPED_TRACE(std::to_string(static_cast<int>(kind)) + " " + to_string(shape));
          check_op({{shape},
                    {n_weights * 13},
                    bias ? Shape{n_weights * 13} : Shape{},
                    [&c](Pass& p, const Operands& o) { return norm(p, BlockSite{}(norms::final), c, o.norm, o.x[0]); },
                    [&c](const All& x) { return reference::norm(c, x[0], x[1], x.size() > 2 ? x[2] : Vector(), 13); }});
        };
        for (const Shape& shape : {Shape{5, 13}, Shape{4, 3, 13}, Shape{4, 1, 13}}) check(shape, 1);
        check({4, 3, 13}, 3);  // a weight for each head
      }
    }
  }
}

TEST(OpGradients, NormsWithoutWeight) {
  for (const NormConfig::Kind kind : {NormConfig::Kind::rms, NormConfig::Kind::layer}) {
    const NormConfig c{kind, 1e-2f, 0.0f, false, false};
    for (const Shape& shape : {Shape{5, 13}, Shape{4, 3, 13}}) {
      check_op(
          {.inputs = {shape},
           .run = [&c](Pass& p, const Operands& o) { return norm(p, BlockSite{}(norms::final), c, o.norm, o.x[0]); },
           .formula = [&c](const All& x) { return reference::norm(c, x[0], Vector(13, 1.0), Vector(), 13); }});
    }
  }
}

TEST(OpGradients, Rope) {
  for (const RopeConfig::Layout layout : {RopeConfig::Layout::halves, RopeConfig::Layout::interleaved}) {
    for (const std::int64_t dim : {8, 6}) {  // of heads of 8
      RopeConfig c = make_rope(100, dim, layout, {}, dim == 6 ? 1.25f : 1.0f);
      c.reversed = dim == 8;
      OpCase op{{{9, 3, 8}},
                {},
                {},
                [&c](Pass& p, const Operands& o) {
                  RopeTables tables;
                  tables.prepare(p, c, 9, Stack::only);
                  return rope(p, c, tables.of(c), o.x[0]);
                },
                [&c](const All& x) {
                  return reference::rope(c, x[0], 3, 8, {0, 1, 2, 3, 4, 0, 1, 2, 3});
                }};
      op.lengths = {5, 4};
      check_op(op);
    }
  }
}

TEST(OpGradients, Activations) {
  for (const Activation a : kActivations) {
    SCOPED_TRACE(static_cast<int>(a));
    for (const double spread : {1.5, 6.0}) {
      check_op({.inputs = {{5, 37}},
                .run = [a](Pass& p, const Operands& o) { return activate(p, a, o.x[0]); },
                .formula = each([a](const Complex& x) { return reference::activation(a, x); }),
                .spread = spread});
      check_op({.inputs = {{5, 37}, {5, 37}},
                .run = [a](Pass& p, const Operands& o) { return gated(p, a, o.x[0], o.x[1]); },
                .formula =
                    [a](const All& x) {
                      Vector y;
                      for (std::size_t i = 0; i < x[0].size(); ++i)
                        y.push_back(reference::activation(a, x[0][i]) * x[1][i]);
                      return y;
                    },
                .spread = spread});
    }
  }
}

TEST(OpGradients, RoutingByWeight) {
  check_op({.inputs = {{6, 5}},
            .run = [](Pass& p, const Operands& o) { return softmax_rows(p, o.x[0]); },
            .formula =
                [](const All& x) {
                  Vector y;
                  for (std::ptrdiff_t t = 0; t < 6; ++t) {
                    for (const Complex& v :
                         reference::softmax(Vector(x[0].begin() + 5 * t, x[0].begin() + 5 * t + 5))) {
                      y.push_back(v);
                    }
                  }
                  return y;
                },
            .spread = 4});
  // Shares require positive weights, so a softmax comes first, in the op and in the formula.
  const std::vector<float> chosen = {0, 3, 2, 1, 4, 0};
  for (const bool renormalize : {false, true}) {
    check_op({.inputs = {{3, 5}},
              .run =
                  [&](Pass& p, const Operands& o) {
                    const Tensor places = p.tensor({3, 2});
                    std::copy(chosen.begin(), chosen.end(), places.data);
                    return shares_of(p, softmax_rows(p, o.x[0]), places, renormalize);
                  },
              .formula =
                  [&](const All& x) {
                    Vector weights;
                    for (std::ptrdiff_t t = 0; t < 3; ++t) {
                      for (const Complex& v :
                           reference::softmax(Vector(x[0].begin() + 5 * t, x[0].begin() + 5 * t + 5))) {
                        weights.push_back(v);
                      }
                    }
                    return reference::shares_of(weights, 5, chosen, 2, renormalize);
                  }});
  }
  check_op({{{4, 3}, {12, 7}},
            {},
            {},
            [](Pass& p, const Operands& o) { return mix_results(p, o.x[0], o.x[1]); },
            [](const All& x) {
              Vector y(28);
              for (std::size_t slot = 0; slot < 12; ++slot) {
                for (std::size_t i = 0; i < 7; ++i) y[slot / 3 * 7 + i] += x[0][slot] * x[1][slot * 7 + i];
              }
              return y;
            }});
}

/// The weights of the chosen: divided by a sum with an epsilon, by a least sum, or not at all; times a scale.
TEST(OpGradients, WeightsOfChosenExperts) {
  const std::vector<float> chosen = {0, 3, 2, 1, 4, 0};
  struct Division {
    bool renormalize;
    float eps, min;
  };
  for (const auto& [renormalize, eps, min] :
       {Division{false, 0, 0}, Division{true, 0.25f, 0}, Division{true, 0, 100}, Division{true, 0, 1e-6f}}) {
    RouterConfig router;
    router.eps = eps;
    router.min = min;
    router.scale = 2.5f;
    check_op({.inputs = {{3, 5}},
              .run =
                  [&](Pass& p, const Operands& o) {
                    const Tensor places = p.tensor({3, 2});
                    std::copy(chosen.begin(), chosen.end(), places.data);
                    return chosen_weights(p, router, sigmoid(p, o.x[0]), places, renormalize);
                  },
              .formula =
                  [&](const All& x) {
                    Vector y(15);
                    for (std::size_t t = 0; t < 3; ++t) {
                      const auto score = [&](std::size_t r) {
                        const Complex logit = x[0][t * 5 + static_cast<std::size_t>(chosen[t * 2 + r])];
                        return 1.0 / (1.0 + std::exp(-logit));
                      };
                      const Complex sum = score(0) + score(1), least = static_cast<double>(min);
                      const Complex total = (sum.real() > least.real() ? sum : least) + static_cast<double>(eps);
                      for (std::size_t r = 0; r < 2; ++r) {
                        y[t * 5 + static_cast<std::size_t>(chosen[t * 2 + r])] =
                            2.5 * (renormalize ? score(r) / total : score(r));
                      }
                    }
                    return y;
                  }});
  }
}

/// They grow by steps, have no gradient, and begin again in each segment.
TEST(OpGradients, ScalesOfQueries) {
  const QueryScaleConfig c{0.5f, 3, 1};
  check_op(
      {.inputs = {{7, 2, 4}},
       .run = [&](Pass& p, const Operands& o) { return multiply_rows(p, o.x[0], query_scales(p, c, 7, Stack::only)); },
       .formula =
           [](const All& x) {
             const int steps[] = {0, 0, 1, 1, 1, 0, 0};
             Vector y = x[0];
             for (std::size_t i = 0; i < y.size(); ++i) y[i] *= 1 + 0.5 * std::log(1.0 + steps[i / 8]);
             return y;
           },
       .lengths = {5, 2}});
}

/// The neighbours of a row are those of its own segment.
TEST(OpGradients, Unfold) {
  for (const std::int64_t width : {1, 3, 5}) {
    SCOPED_TRACE(width);
    check_op({.inputs = {{6, 4}},
              .run = [&](Pass& p, const Operands& o) { return unfold(p, Stack::only, o.x[0], width); },
              .formula =
                  [&](const All& x) {
                    const std::int64_t firsts[] = {0, 0, 0, 0, 4, 4}, ends[] = {4, 4, 4, 4, 6, 6};
                    Vector y;
                    for (std::int64_t t = 0; t < 6; ++t) {
                      for (std::int64_t c = 0; c < 4; ++c) {
                        for (std::int64_t j = 0; j < width; ++j) {
                          const std::int64_t from = t + j - width / 2;
                          const bool is_inside = from >= firsts[t] && from < ends[t];
                          y.push_back(is_inside ? x[0][static_cast<std::size_t>(from * 4 + c)] : 0.0);
                        }
                      }
                    }
                    return y;
                  },
              .lengths = {4, 2}});
  }
}

TEST(OpGradients, Losses) {
  const std::vector<std::int32_t> targets = {4, 0, 22, 4};
  for (const float smoothing : {0.0f, 0.1f, 1.0f}) {
    check_op({.inputs = {{4, 23}},
              .run = [&](Pass& p, const Operands& o) { return next_token_loss(p, o.x[0], targets, smoothing); },
              .formula =
                  [&](const All& x) {
                    return reference::next_token_loss(x[0], 23, targets, static_cast<double>(smoothing));
                  },
              .spread = 5});
  }
  check_op({.inputs = {{4, 23}},
            .run = [](Pass& p, const Operands& o) { return log_partition(p, o.x[0]); },
            .formula = [](const All& x) { return reference::log_partition(x[0], 23); },
            .spread = 5});
}

}  // namespace
}  // namespace vitrine::test
