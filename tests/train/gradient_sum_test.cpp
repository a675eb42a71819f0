// The order in which the gradients of micro-batches are added.
#include "train/distributed/gradient_sum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace vitrine::test {
namespace {

constexpr std::int64_t kCount = 35;

/// T(a, b) = T(a, a + h) + T(a + h, b), where h is the largest power of two below b − a.
std::vector<float> tree(const std::vector<std::vector<float>>& parts, std::size_t a, std::size_t b) {
  if (b - a == 1) return parts[a];
  std::size_t h = 1;
  while (2 * h < b - a) h *= 2;
  std::vector<float> left = tree(parts, a, a + h);
  const std::vector<float> right = tree(parts, a + h, b);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

TEST(GradientSum, AddsMicroBatchesAsOneTree) {
  const Param vector{"v", "v", {7}, {}}, matrix{"m", "m", {5, 7}, {}};
  Gradients gradients;
  gradients.add(vector);
  gradients.add(matrix);
  GradientSum sum(gradients);
  ThreadPool pool(2);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (std::size_t n = 1; n <= 17; ++n) {
    for (int interrupted = 0; interrupted < 2; ++interrupted) {  // an abandoned step changes nothing
      sum.clear();
      std::vector<std::vector<float>> parts(n);
      for (std::size_t i = 0; i < n; ++i) {
        sum.begin(pool);
        const Tensor g = gradients.of(matrix);
        for (std::int64_t j = 0; j < kCount; ++j) parts[i].push_back(g.data[j] += normal(random));
        gradients.of(vector).data[6] = 1;
        sum.add(pool, default_kernels());
        if (interrupted == 0 && i == n / 2) break;
      }
      if (interrupted == 0) continue;
      sum.finish(pool, default_kernels());
      const std::vector<float> expected = tree(parts, 0, n);
      EXPECT_EQ(std::memcmp(gradients.of(matrix).data, expected.data(), kCount * sizeof(float)), 0) << n;
      EXPECT_EQ(gradients.of(vector).data[6], static_cast<float>(n));
      EXPECT_EQ(gradients.of(vector).data[0], 0);
    }
  }
}

TEST(GradientSum, GradientsShareOneBufferInOrder) {
  const Param first{"a", "a", {3, 3}, {}}, second{"b", "b", {16}, {}}, none{"c", "c", {1}, {}};
  Gradients gradients;
  gradients.add(first);
  gradients.add(second);
  EXPECT_EQ(gradients.of(first).data, gradients.values().data());
  EXPECT_EQ(gradients.of(second).data, gradients.values().data() + kParamAlignment);
  EXPECT_EQ(gradients.values().size(), 2 * kParamAlignment);
  EXPECT_EQ(gradients.of(none).data, nullptr);
}

}  // namespace
}  // namespace vitrine::test
