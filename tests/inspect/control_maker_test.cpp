// Directions from pairs of texts.
#include "inspect/control_maker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using Matrix = std::vector<float>;  // row by row

Matrix random_matrix(std::size_t n, std::size_t d, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Matrix m(n * d);
  for (float& x : m) x = normal(generator);
  return m;
}

/// DᵀD · v
std::vector<double> squared(const Matrix& m, std::size_t d, const std::vector<double>& v) {
  std::vector<double> result(d);
  for (std::size_t row = 0; row < m.size(); row += d) {
    double dot = 0;
    for (std::size_t i = 0; i < d; ++i) dot += static_cast<double>(m[row + i]) * v[i];
    for (std::size_t i = 0; i < d; ++i) result[i] += dot * static_cast<double>(m[row + i]);
  }
  return result;
}

double length(const std::vector<double>& v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

/// By the power method, whose error falls with the ratio of the first two eigenvalues.
std::vector<double> by_powers(const Matrix& m, std::size_t d, int steps) {
  std::vector<double> v(d);
  for (std::size_t i = 0; i < d; ++i) v[i] = std::cos(static_cast<double>(i) + 0.3);
  for (int step = 0; step < steps; ++step) {
    v = squared(m, d, v);
    const double by = length(v);
    for (double& x : v) x /= by;
  }
  return v;
}

TEST(FirstSingularVector, IsThatOfThePowerMethod) {
  const std::pair<std::size_t, std::size_t> shapes[] = {{1, 7},   {2, 9},   {40, 12}, {12, 40},
                                                        {60, 60}, {5, 300}, {33, 1}};
  for (const auto& [n, d] : shapes) {
    const Matrix m = random_matrix(n, d, static_cast<std::uint32_t>(n * d));
    const std::vector<double> ours = first_singular_vector(m, static_cast<std::int64_t>(d));
    const std::vector<double> expected = by_powers(m, d, 20'000);
    EXPECT_NEAR(length(ours), 1, 1e-12);
    const double cosine = std::inner_product(ours.begin(), ours.end(), expected.begin(), 0.0);
    EXPECT_NEAR(std::abs(cosine), 1, 1e-9) << n << " × " << d;
    double sum = 0;
    for (std::size_t row = 0; row < m.size(); row += d) {
      for (std::size_t i = 0; i < d; ++i) sum += static_cast<double>(m[row + i]) * ours[i];
    }
    EXPECT_GE(sum, 0) << "its sign";
  }
}

TEST(FirstSingularVector, OfFewDirections) {
  const Matrix twice = {3, 4, 0, 6, 8, 0, -1.5f, -2, 0};  // rank 1
  const std::vector<double> v = first_singular_vector(twice, 3);
  EXPECT_NEAR(v[0], 0.6, 1e-7);
  EXPECT_NEAR(v[1], 0.8, 1e-7);
  EXPECT_NEAR(v[2], 0, 1e-12);
  const std::vector<double> equal = first_singular_vector(Matrix{1, 0, 0, 1}, 2);  // any vector is one
  EXPECT_NEAR(length(equal), 1, 1e-12);
  EXPECT_EQ(first_singular_vector(Matrix(6), 3), std::vector<double>(3));
}

TEST(FirstSingularVector, IsUncentered) {
  const Matrix m = {10, 1, 10, -1, 10, 1, 10, -1};  // centered, it would be (0, 1)
  EXPECT_NEAR(first_singular_vector(m, 2)[0], 1, 1e-9);
}

class Making : public testing::Test {
 protected:
  std::vector<std::vector<float>> states(const std::vector<std::int32_t>& ids, int layer) const {
    const std::string site = "blocks." + std::to_string(layer) + ".hook_resid_post";
    Probe probe(*checkpoint_.model, {site});
    logits_of(*checkpoint_.model, ids, {.taps = &probe});
    const Value& value = probe.values.at(site);
    const auto d = static_cast<std::size_t>(value.shape[1]);
    std::vector<std::vector<float>> rows;
    for (std::size_t at = 0; at < value.data.size(); at += d) {
      rows.emplace_back(value.data.begin() + static_cast<std::ptrdiff_t>(at),
                        value.data.begin() + static_cast<std::ptrdiff_t>(at + d));
    }
    return rows;
  }

  const Checkpoint checkpoint_ = golden_checkpoint("gemma2");
  mutable ThreadPool pool_{1};
  const GenerateContext context_{checkpoint_.model.get(), &pool_, &default_kernels()};
};

TEST_F(Making, TheMeanIsThatOfTheDifferences) {
  const std::vector<std::int32_t> a = {1, 2, 3}, b = {4, 5}, c = {6, 7, 8, 9}, e = {2, 1};
  for (const ControlPool pool : {ControlPool::last, ControlPool::mean}) {
    ControlMaker maker(context_, pool);
    maker.add(a, b);
    maker.add(c, e);
    const ControlVector made = maker.make(ControlMethod::mean);
    const int n_layers = static_cast<int>(checkpoint_.model->config().n_layers());
    ASSERT_EQ(std::ssize(made.directions), n_layers - 1);
    EXPECT_EQ(made.find(0), nullptr);
    for (int layer = 1; layer < n_layers; ++layer) {
      const auto pooled = [&](const std::vector<std::int32_t>& ids, std::size_t i) {
        const auto rows = states(ids, layer);
        if (pool == ControlPool::last) return static_cast<double>(rows.back()[i]);
        double sum = 0;
        for (const auto& row : rows) sum += static_cast<double>(row[i]);
        return sum / static_cast<double>(rows.size());
      };
      const std::vector<float>& ours = *made.find(layer);
      std::vector<double> expected;
      for (std::size_t i = 0; i < ours.size(); ++i) {
        expected.push_back(pooled(a, i) - pooled(b, i) + pooled(c, i) - pooled(e, i));
      }
      for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], expected[i] / length(expected), 1e-6);
    }
  }
}

TEST_F(Making, OfOnePairBothMethodsAgree) {
  ControlMaker maker(context_, ControlPool::last);
  maker.add(std::vector<std::int32_t>{1, 2, 3}, std::vector<std::int32_t>{3, 2});
  const ControlVector mean = maker.make(ControlMethod::mean), pca = maker.make(ControlMethod::pca);
  for (const auto& [layer, direction] : mean.directions) {
    for (std::size_t i = 0; i < direction.size(); ++i) EXPECT_NEAR(direction[i], (*pca.find(layer))[i], 1e-6);
  }
}

TEST_F(Making, WithoutADifferenceThereIsNoDirection) {
  ControlMaker maker(context_, ControlPool::last);
  EXPECT_THROW(maker.make(ControlMethod::mean), BadInput);
  maker.add(std::vector<std::int32_t>{1, 2}, std::vector<std::int32_t>{1, 2});
  EXPECT_THROW(maker.make(ControlMethod::mean), BadInput);
  EXPECT_THROW(maker.make(ControlMethod::pca), BadInput);
  EXPECT_THROW(maker.add({}, std::vector<std::int32_t>{1}), BadInput);
  const Checkpoint pair = golden_checkpoint("pairs/t5");
  const GenerateContext context{pair.model.get(), &pool_, &default_kernels()};
  EXPECT_THROW(ControlMaker(context, ControlPool::last), Unsupported);
}

}  // namespace
}  // namespace vitrine::test
