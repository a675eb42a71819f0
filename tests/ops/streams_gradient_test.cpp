// Ops of several residual streams, and Gaussian top-k: values and gradients against the formula, by complex steps
// (support/op_check.h).
#include <gtest/gtest.h>

#include <cmath>

#include "ops/formulas.h"
#include "ops/gaussian_topk.h"
#include "ops/streams.h"

namespace vitrine::test {
namespace {

constexpr std::size_t kRows = 5, kStreams = 3, kWidth = 7;

/// √(max(mean x², least)) of `n` elements.
Complex magnitude(const Vector& x, std::size_t first, std::size_t n, double least) {
  Complex sum = 0;
  for (std::size_t i = first; i < first + n; ++i) sum += x[i] * x[i];
  const Complex mean = sum / static_cast<double>(n);
  return std::sqrt(mean.real() > least ? mean : Complex(least));
}

TEST(OpGradients, PredictStreams) {
  check_op({.inputs = {{kRows, kStreams * kWidth}, {kRows, kStreams * kStreams}},
            .run = [](Pass& p, const Operands& o) { return predict_streams(p, o.x[0], o.x[1]); },
            .formula =
                [](const All& x) {
                  Vector y = x[0];
                  for (std::size_t i = 0; i < y.size(); ++i) {
                    const std::size_t t = i / (kStreams * kWidth), b = i / kWidth % kStreams, column = i % kWidth;
                    for (std::size_t a = 0; a < kStreams; ++a) {
                      y[i] += x[1][(t * kStreams + b) * kStreams + a] * x[0][(t * kStreams + a) * kWidth + column];
                    }
                  }
                  return y;
                }});
}

TEST(OpGradients, CorrectStreams) {
  for (const std::size_t active : {std::size_t{0}, std::size_t{2}}) {
    check_op({.inputs = {{kRows, kStreams * kWidth}, {kRows, kStreams}, {kRows, kWidth}},
              .run =
                  [active](Pass& p, const Operands& o) {
                    return correct_streams(p, o.x[0], o.x[1], o.x[2], static_cast<std::int64_t>(active));
                  },
              .formula =
                  [active](const All& x) {
                    Vector y = x[0];
                    for (std::size_t i = 0; i < y.size(); ++i) {
                      const std::size_t t = i / (kStreams * kWidth), b = i / kWidth % kStreams, column = i % kWidth;
                      const Complex before = x[0][(t * kStreams + active) * kWidth + column];
                      y[i] += (1.0 + x[1][t * kStreams + b]) * (x[2][t * kWidth + column] - before);
                    }
                    return y;
                  }});
  }
}

TEST(OpGradients, AddToStreams) {
  check_op({.inputs = {{kRows, kStreams * kWidth}, {kRows, kWidth}},
            .run = [](Pass& p, const Operands& o) { return add_to_streams(p, o.x[0], o.x[1], 1); },
            .formula =
                [](const All& x) {
                  Vector y = x[0];
                  for (std::size_t i = 0; i < y.size(); ++i) {
                    const std::size_t t = i / (kStreams * kWidth), b = i / kWidth % kStreams;
                    if (b > 0) y[i] += x[1][t * kWidth + i % kWidth];
                  }
                  return y;
                }});
}

/// Small rows have the least magnitude.
TEST(OpGradients, MatchMagnitude) {
  for (const double spread : {1.5, 1e-3}) {
    check_op({.inputs = {{kRows, kWidth}, {kRows, kWidth}},
              .run = [](Pass& p, const Operands& o) { return match_magnitude(p, o.x[0], o.x[1]); },
              .formula =
                  [](const All& x) {
                    Vector y = x[0];
                    for (std::size_t i = 0; i < y.size(); ++i) {
                      const std::size_t first = i / kWidth * kWidth;
                      y[i] *= magnitude(x[1], first, kWidth, 0) / magnitude(x[0], first, kWidth, 1e-5);
                    }
                    return y;
                  },
              .spread = spread});
  }
}

TEST(OpGradients, GaussianTopk) {
  constexpr std::size_t kColumns = 37;
  for (const float deviations : {-0.5f, 0.0f, 1.2f}) {
    check_op({.inputs = {{kRows, kColumns}},
              .run = [deviations](Pass& p, const Operands& o) { return gaussian_topk(p, deviations, o.x[0]); },
              .formula =
                  [deviations](const All& x) {
                    Vector y = x[0];
                    for (std::size_t t = 0; t < kRows; ++t) {
                      Complex mean = 0;
                      for (std::size_t i = 0; i < kColumns; ++i) mean += x[0][t * kColumns + i];
                      mean /= static_cast<double>(kColumns);
                      Vector centered;
                      for (std::size_t i = 0; i < kColumns; ++i) centered.push_back(x[0][t * kColumns + i] - mean);
                      const Complex cutoff = static_cast<double>(deviations) * magnitude(centered, 0, kColumns, 0);
                      for (std::size_t i = 0; i < kColumns; ++i) {
                        const Complex above = centered[i] - cutoff;
                        y[t * kColumns + i] = above.real() > 0 ? above : Complex(0);
                      }
                    }
                    return y;
                  }});
  }
}

}  // namespace
}  // namespace vitrine::test
