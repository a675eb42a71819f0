// The rotations of RoPE are computed once in a pass, for all layers.
#include <gtest/gtest.h>

#include <atomic>

#include "support/backward.h"

namespace vitrine::test {
namespace {

std::atomic<int> n_rows;

Kernels counting_kernels() {
  Kernels kernels = default_kernels();
  kernels.sin_cos = [](const float* angle, std::int64_t n, float* sin, float* cos) {
    ++n_rows;
    default_kernels().sin_cos(angle, n, sin, cos);
  };
  return kernels;
}

template <class Run>
int rows_of(Run&& run) {
  n_rows = 0;
  run();
  return n_rows;
}

TEST(RopeTables, AreComputedOncePerPassAndConfig) {
  const Kernels kernels = counting_kernels();
  for (const auto& [golden, n_configs] : {std::pair{"llama_mha", 1}, std::pair{"gemma3", 2}}) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    const Model& model = *checkpoint.model;
    ASSERT_GT(model.config().blocks.size(), static_cast<std::size_t>(n_configs));
    const Ids ids = golden_ids(golden);
    const int once = static_cast<int>(ids.size()) * n_configs;
    EXPECT_EQ(rows_of([&] { logits_of(model, ids, {.kernels = &kernels}); }), once) << golden;
    EXPECT_EQ(rows_of([&] { chunked_logits_of(model, ids, 1, {.kernels = &kernels}); }), once) << golden;
    for (const bool recompute : {false, true}) {
      ModelGradients model_gradients(model, {.kernels = &kernels, .recompute = recompute});
      EXPECT_EQ(rows_of([&] { model_gradients.forward_backward({ids}); }), once)
          << golden << ", recompute " << recompute;
    }
  }
}

}  // namespace
}  // namespace vitrine::test
