// A step of the sampler allocates nothing of the vocabulary's size. This file counts the allocations of the binary.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "generate/sampler.h"

namespace {

constexpr std::size_t kLarge = 10'000;  // bytes, fewer than a bit per id
std::atomic<int> n_large = 0;

}  // namespace

void* operator new(std::size_t size) {
  if (size >= kLarge) ++n_large;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace vitrine {
namespace {

TEST(Sampler, ReusesItsMemory) {
  constexpr std::size_t kVocabSize = 100'000;
  std::vector<float> logits(kVocabSize);
  for (std::size_t i = 0; i < kVocabSize; ++i) logits[i] = static_cast<float>((i * 7919) % 1000) / 100;
  const std::vector<std::int32_t> history = {3, 99'999, 3, 17};
  const SamplingConfig configs[] = {
      {},
      {.temperature = 0, .repeat_penalty = 1.1},
      {.temperature = 2, .top_k = 0, .top_p = 0.5, .min_p = 0.01, .repeat_penalty = 1.2, .presence_penalty = 0.5},
      {.temperature = 30, .top_k = 0, .top_p = 1, .logit_bias = {{5, 1.0}}},
  };
  Sampler sampler;
  const auto draw_all = [&](auto draw) {
    for (const SamplingConfig& config : configs) {
      for (std::uint64_t step = 0; step < 3; ++step) draw(config, DrawKey{1, 0, step});
    }
  };
  const int at_first = n_large;
  draw_all([&](const SamplingConfig& config, const DrawKey& key) {
    sampler.scores(kVocabSize);
    EXPECT_EQ(sampler.sample(logits, history, config, key, 2), sample(logits, history, config, key, 2));
  });
  EXPECT_GT(n_large, at_first) << "the count works";
  const int before = n_large;
  draw_all([&](const SamplingConfig& config, const DrawKey& key) {
    sampler.scores(kVocabSize);
    sampler.sample(logits, history, config, key, 2);
  });
  EXPECT_EQ(n_large, before);
}

}  // namespace
}  // namespace vitrine
