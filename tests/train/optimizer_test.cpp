// Compares optimizers with PyTorch's, and compares their bits across numbers of threads and instruction sets.
#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "support/data.h"
#include "tensor/dtype.h"

namespace vitrine::test {
namespace {

std::vector<float> floats_of(const StoredTensor& tensor) {
  std::vector<float> floats(tensor.bytes.size() / sizeof(float));
  std::memcpy(floats.data(), tensor.bytes.data(), tensor.bytes.size());
  return floats;
}

/// Parameters with storage for values, bf16 weights and gradients.
struct Parameters {
  std::vector<std::vector<float>> values, gradients;
  std::vector<std::vector<std::uint16_t>> weights;
  std::vector<TrainParam> params;
  std::vector<const float*> grads;

  explicit Parameters(const std::vector<Shape>& shapes, bool bf16 = false) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (const Shape& shape : shapes) {
      const auto n = static_cast<std::size_t>(shape.count());
      for (auto* list : {&values, &gradients}) {
        list->emplace_back(n);
        for (float& x : list->back()) x = normal(random);
      }
      weights.emplace_back(n);
    }
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      params.push_back({"p" + std::to_string(i), shapes[i], values[i].data(),
                        bf16 ? reinterpret_cast<std::byte*>(weights[i].data()) : nullptr});
      grads.push_back(gradients[i].data());
    }
  }
};

class OptimizerGoldens : public testing::TestWithParam<const char*> {};

TEST_P(OptimizerGoldens, TenStepsEqualPyTorch) {
  const SafetensorsFile file = SafetensorsFile::open(source_dir() + "/tests/train/optimizers.safetensors");
  const auto stored = [&](const std::string& name) { return floats_of(file.tensors().at(name)); };
  const std::string kind = GetParam();
  Parameters p({{13, 41}, {19}});
  const std::string names[] = {"matrix", "vector"};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<float> begin = stored("begin." + names[i]);
    std::copy(begin.begin(), begin.end(), p.values[i].begin());
  }
  OptimizerConfig config;
  if (kind == "sgd") config.kind = OptimizerConfig::Kind::sgd;
  Optimizer optimizer(config, p.params);
  ThreadPool pool(2);
  const std::vector<float> norms = stored(kind + ".norms");
  int clipped = 0;
  for (int step = 0; step < 10; ++step) {
    for (std::size_t i = 0; i < 2; ++i) {
      const std::vector<float> all = stored("gradients." + names[i]);
      const auto n = static_cast<std::ptrdiff_t>(p.gradients[i].size());
      std::copy_n(all.begin() + step * n, n, p.gradients[i].begin());
    }
    const double lr = (kind == "sgd" ? 0.1 : 3e-3) * (step + 1) / 10;
    const StepReport report = optimizer.step(pool, default_kernels(), p.params, p.grads, lr);
    EXPECT_NEAR(report.grad_norm, norms[static_cast<std::size_t>(step)], 1e-6 * report.grad_norm);
    clipped += report.clip_factor < 1 ? 1 : 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::vector<float> expected = stored(kind + "." + std::to_string(step) + "." + names[i]);
      for (std::size_t e = 0; e < expected.size(); ++e) {
        ASSERT_NEAR(p.values[i][e], expected[e], 1e-6f * (1 + std::fabs(expected[e]))) << step << " " << names[i];
      }
    }
  }
  EXPECT_EQ(clipped, 6);
  EXPECT_EQ(optimizer.steps(), 10);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerGoldens, testing::Values("adamw", "sgd"));

TEST(Optimizer, KeepsTheElementsOfAParameterWithinItsLimit) {
  Parameters free({{13, 41}, {7, 5}}, true), limited({{13, 41}, {7, 5}}, true);
  limited.params[1].limit = 0.25f;
  ThreadPool pool(1);
  for (Parameters* p : {&free, &limited}) {
    Optimizer(OptimizerConfig(), p->params).step(pool, default_kernels(), p->params, p->grads, 1e-2);
  }
  EXPECT_EQ(free.values[0], limited.values[0]);
  for (std::size_t i = 0; i < free.values[1].size(); ++i) {
    EXPECT_EQ(limited.values[1][i], std::clamp(free.values[1][i], -0.25f, 0.25f)) << i;
    const bool is_beyond = std::abs(free.values[1][i]) > 0.25f;
    EXPECT_EQ(limited.weights[1][i] == free.weights[1][i], !is_beyond) << i;
  }
}

TEST(Optimizer, HasTheSameBitsOnAnyThreadsAndInstructionSets) {
  const auto run = [](int threads, Isa isa) {
    Parameters p({{123, 457}, {35}, {9000}, {1}}, true);
    Optimizer optimizer({}, p.params);
    ThreadPool pool(threads);
    double norms = 0;
    for (int step = 0; step < 3; ++step) {
      norms += optimizer.step(pool, kernels_for(isa), p.params, p.grads, 0.01).grad_norm;
    }
    return std::tuple(norms, p.values, p.weights);
  };
  const auto expected = run(1, Isa::scalar);
  for (const Isa isa : available_isas()) {
    for (const int threads : {1, 2, 5}) EXPECT_EQ(run(threads, isa), expected) << name_of(isa) << " " << threads;
  }
}

TEST(Optimizer, UpdatesTheMasterAndRoundsTheWeight) {
  const std::vector<Shape> shapes = {{100, 60}, {17}};
  Parameters masters(shapes, true), plain(shapes);
  Optimizer first({}, masters.params), second({}, plain.params);
  ThreadPool pool(2);
  for (int step = 0; step < 5; ++step) {
    first.step(pool, default_kernels(), masters.params, masters.grads, 1e-4);
    second.step(pool, default_kernels(), plain.params, plain.grads, 1e-4);
  }
  EXPECT_EQ(masters.values, plain.values);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::size_t e = 0; e < masters.values[i].size(); ++e) {
      ASSERT_EQ(masters.weights[i][e], bf16_from_float(masters.values[i][e]));
    }
  }
}

TEST(Optimizer, SkipsAStepWithoutAFiniteNorm) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf(""), 1e30f}) {
    Parameters p({{64, 100}, {10}});
    Optimizer optimizer({}, p.params);
    ThreadPool pool(2);
    optimizer.step(pool, default_kernels(), p.params, p.grads, 0.1);
    const auto before = p.values;
    p.gradients[1][7] = bad;
    const StepReport report = optimizer.step(pool, default_kernels(), p.params, p.grads, 0.1);
    EXPECT_TRUE(report.skipped);
    EXPECT_EQ(report.not_finite, "p1");
    EXPECT_EQ(optimizer.steps(), 1);
    EXPECT_EQ(p.values, before);
  }
}

TEST(Optimizer, ResumesBitIdentically) {
  const std::vector<Shape> shapes = {{70, 90}, {33}};
  Parameters p(shapes), q(shapes);
  ThreadPool pool(1);
  Optimizer whole({}, p.params), begun({}, q.params);
  for (int step = 0; step < 6; ++step) whole.step(pool, default_kernels(), p.params, p.grads, 0.01);
  for (int step = 0; step < 3; ++step) begun.step(pool, default_kernels(), q.params, q.grads, 0.01);
  Optimizer resumed({}, q.params);
  const auto from = begun.state(q.params), to = resumed.state(q.params);
  ASSERT_EQ(from.size(), 4U);
  EXPECT_EQ(from[3].name, "exp_avg_sq.p1");
  for (std::size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(from[i].values.size(), to[i].values.size());
    std::copy(from[i].values.begin(), from[i].values.end(), to[i].values.begin());
  }
  resumed.set_steps(begun.steps());
  for (int step = 0; step < 3; ++step) resumed.step(pool, default_kernels(), q.params, q.grads, 0.01);
  EXPECT_EQ(p.values, q.values);
}

TEST(Optimizer, RefusesNumbersOutOfRange) {
  const auto with = [](auto change) {
    OptimizerConfig config;
    change(config);
    return config;
  };
  EXPECT_THROW(Optimizer(with([](auto& c) { c.beta2 = 1; }), {}), BadInput);
  EXPECT_THROW(Optimizer(with([](auto& c) { c.beta1 = -0.1; }), {}), BadInput);
  EXPECT_THROW(Optimizer(with([](auto& c) { c.eps = std::nan(""); }), {}), BadInput);
  EXPECT_THROW(Optimizer(with([](auto& c) { c.max_norm = 0; }), {}), BadInput);
}

}  // namespace
}  // namespace vitrine::test
