// Passes of any number of tokens (--chunk) give the same bits and the same tokens.
#include <gtest/gtest.h>

#include "generate/generator.h"
#include "generate/score.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

/// Ordinary attention, with a window and with experts, and latent attention with both kinds of MLP.
constexpr const char* kGoldens[] = {"llama_gqa_bf16_sharded", "gemma3", "mixtral", "deepseek_v3", "deepseek_v2"};

std::vector<float> scored(const GenerateContext& context, const std::vector<std::int32_t>& ids) {
  std::vector<float> logits;
  score(context, {ids},
        [&](std::int64_t, const Tensor& rows) { logits.insert(logits.end(), rows.data, rows.data + rows.count()); });
  return logits;
}

TEST(Chunks, OfAnyLengthGiveTheSameBits) {
  for (const char* const golden : kGoldens) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    const std::vector<std::int32_t> ids = some_ids(*checkpoint.model, 60, 1);
    std::vector<float> whole;
    for (const Isa isa : available_isas()) {
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        GenerateContext context{checkpoint.model.get(), &pool, &kernels_for(isa)};
        for (const std::int64_t chunk : {kPrefillChunk, std::int64_t{1}, std::int64_t{7}, std::int64_t{64}}) {
          context.chunk = chunk;
          const std::vector<float> logits = scored(context, ids);
          if (whole.empty()) whole = logits;
          EXPECT_TRUE(same_bits(logits, whole)) << golden << ", " << name_of(isa) << ", chunks of " << chunk;
        }
      }
    }
  }
}

TEST(Chunks, OfAnyLengthGiveTheSameTokens) {
  for (const char* const golden : kGoldens) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    ThreadPool pool(2);
    const GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
    std::vector<std::vector<std::int32_t>> whole;
    for (const std::int64_t chunk : {64, 1, 7}) {
      std::vector<GenerateRequest> requests(2);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        requests[i].prompt = some_ids(*checkpoint.model, static_cast<std::int64_t>(20 + 9 * i), i);
        requests[i].max_tokens = 10;
        requests[i].chunk = chunk;
      }
      std::vector<std::vector<std::int32_t>> ids;
      for (const GenerateResult& result : generate(context, requests)) ids.push_back(result.ids);
      if (whole.empty()) whole = ids;
      EXPECT_EQ(ids, whole) << golden << ", chunks of " << chunk;
    }
  }
}

}  // namespace
}  // namespace vitrine::test
