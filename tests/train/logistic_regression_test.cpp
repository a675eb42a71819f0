// Logistic regression: the gradient of the objective, written out, is 0 at the weights.
#include "train/probe/logistic_regression.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/rng.h"

namespace vitrine::test {
namespace {

struct Problem {
  std::vector<float> x;
  std::vector<std::int32_t> classes;
  std::int64_t d;
  std::int32_t n_classes;

  ClassifiedRows rows() const { return {x, classes, d, n_classes}; }
};

/// Classes that the columns say something of. Columns have very different scales and means far from 0.
Problem problem(std::int64_t n, std::int64_t d, std::int32_t n_classes) {
  Problem p{{}, {}, d, n_classes};
  for (std::int64_t i = 0; i < n; ++i) {
    const auto u = [&](std::uint64_t j) { return uniform(11, static_cast<std::uint64_t>(i), j) - 0.5; };
    p.classes.push_back(static_cast<std::int32_t>(i % n_classes));
    for (std::int64_t j = 0; j < d; ++j) {
      const double shift = j == p.classes.back() ? 0.3 : 0;
      const double scale = j % 7 == 0 ? 30 : j % 5 == 0 ? 0.02 : 1;
      p.x.push_back(static_cast<float>(scale * (u(static_cast<std::uint64_t>(j)) + shift) + (j % 3 == 0 ? 50 : 0)));
    }
  }
  return p;
}

LogisticFit fit(const Problem& p, double c, int threads = 1) {
  ThreadPool pool(threads);
  return fit_logistic(p.rows(), c, pool, [] {});
}

/// The largest element of the gradient of the objective, by its definition.
double largest_slope(const Problem& p, double c, const LogisticFit& f) {
  const auto k = std::ssize(f.bias), n = std::ssize(p.classes);
  std::vector<double> of_weight = f.weight, of_bias(f.bias.size());
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<double> z;
    for (std::int64_t l = 0; l < k; ++l) {
      z.push_back(f.bias[static_cast<std::size_t>(l)]);
      for (std::int64_t j = 0; j < p.d; ++j) {
        z.back() += f.weight[static_cast<std::size_t>(l * p.d + j)] *
                    static_cast<double>(p.x[static_cast<std::size_t>(i * p.d + j)]);
      }
    }
    if (k == 1) z.insert(z.begin(), 0.0);  // the softmax of two logits
    double sum = 0;
    for (double& value : z) sum += value = std::exp(value);
    for (std::int64_t l = 0; l < k; ++l) {
      const std::int64_t label = k == 1 ? 1 : l;
      const double r = z[static_cast<std::size_t>(label)] / sum - (p.classes[static_cast<std::size_t>(i)] == label);
      of_bias[static_cast<std::size_t>(l)] += c * r;
      for (std::int64_t j = 0; j < p.d; ++j) {
        of_weight[static_cast<std::size_t>(l * p.d + j)] +=
            c * r * static_cast<double>(p.x[static_cast<std::size_t>(i * p.d + j)]);
      }
    }
  }
  double most = 0;
  for (const double g : of_weight) most = std::max(most, std::abs(g));
  for (const double g : of_bias) most = std::max(most, std::abs(g));
  return most;
}

TEST(LogisticRegression, IsAtTheMinimum) {
  for (const auto& [n, d, k] : {std::tuple(40, 6, 2), {40, 6, 3}, {12, 60, 2}, {12, 60, 4}, {300, 3, 2}}) {
    for (const double c : {0.01, 1.0, 100.0}) {
      const Problem p = problem(n, d, k);
      const LogisticFit f = fit(p, c);
      EXPECT_LT(largest_slope(p, c, f), 1e-6) << n << " " << d << " " << k << " " << c;
      EXPECT_LT(f.iterations, 60);
      if (k == 2) continue;
      double sum = 0;
      for (const double bias : f.bias) sum += bias;
      EXPECT_NEAR(sum, 0, 1e-9);
    }
  }
}

TEST(LogisticRegression, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const std::int32_t k : {2, 3}) {
    const Problem p = problem(50, 90, k);
    const LogisticFit one = fit(p, 1);
    for (const int threads : {2, 3}) {
      const LogisticFit other = fit(p, 1, threads);
      EXPECT_EQ(other.weight, one.weight);
      EXPECT_EQ(other.bias, one.bias);
    }
  }
}

TEST(LogisticRegression, KnowsConstantAndSeparableRows) {
  // Nothing tells the classes apart: the bias is the logarithm of their ratio.
  const Problem same{{2, 2, 2, 2}, {0, 1, 1, 1}, 1, 2};
  const LogisticFit f = fit(same, 1);
  EXPECT_NEAR(f.weight[0], 0, 1e-9);
  EXPECT_NEAR(f.bias[0], std::log(3.0), 1e-8);
  const Problem separable{{-1, -2, 1, 2}, {0, 0, 1, 1}, 1, 2};
  EXPECT_LT(largest_slope(separable, 1e4, fit(separable, 1e4)), 1e-5);
  const Problem infinite{{1, INFINITY, 1, 2}, {0, 0, 1, 1}, 1, 2};
  EXPECT_THROW(fit(infinite, 1), NotFinite);
}

}  // namespace
}  // namespace vitrine::test
