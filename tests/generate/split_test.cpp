// A model on several ranks, as threads of this process: the bits of one process.
#include "generate/ranked_layers.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "generate/generator.h"
#include "generate/ranked_heads.h"
#include "generate/score.h"
#include "support/local_ranks.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

struct Written {
  std::vector<float> logits;
  std::vector<std::int32_t> ids;
};

void expect_same(const Written& a, const Written& b) {
  EXPECT_TRUE(same_bits(a.logits, b.logits));
  EXPECT_EQ(a.ids, b.ids);
}

/// The logits of a text, and what two sequences at once continue it with.
Written run(const Model& model, const std::vector<std::int32_t>& text, KvTypes kv, ModelSplit* split) {
  ThreadPool pool(1);
  GenerateContext context{&model, &pool, &default_kernels(), nullptr, kv};
  context.split = split;
  Written written;
  score(context, text, [&](std::int64_t, const Tensor& logits) {
    written.logits.insert(written.logits.end(), logits.data, logits.data + logits.count());
  });
  std::vector<GenerateRequest> requests(2);
  for (std::size_t i = 0; i < 2; ++i) {
    requests[i].prompt.assign(text.begin(), text.end() - static_cast<std::ptrdiff_t>(3 * i));
    requests[i].max_tokens = 5;
    requests[i].sampling.temperature = 1;
    requests[i].seed = i;
  }
  for (const GenerateResult& result : generate(context, requests, {}, nullptr)) {
    written.ids.insert(written.ids.end(), result.ids.begin(), result.ids.end());
  }
  return written;
}

TEST(RankedLayers, HaveTheBitsOfOneProcess) {
  for (const std::string name : {"gpt2", "gemma2", "mixtral", "qwen3", "llama_gqa_bf16_sharded", "phi3_long"}) {
    const Checkpoint checkpoint = golden_checkpoint(name);
    const Model& model = *checkpoint.model;
    const std::vector<std::int32_t> text = some_ids(model, 12);
    for (const KvTypes kv : {KvTypes(), KvTypes{KvType::int8, KvType::int8}}) {
      const Written one = run(model, text, kv, nullptr);
      for (int n = 2; n <= static_cast<int>(model.config().blocks.size()); ++n) {
        SCOPED_TRACE(fmt::format("{} {}", name, n));
        run_local_ranks(n, [&](Ranks& ranks) {
          RankedLayers split(ranks, model);
          expect_same(run(model, text, kv, &split), one);
        });
      }
    }
  }
}

TEST(RankedHeads, HaveTheBitsOfOneProcess) {
  for (const std::string name :
       {"gpt2", "gemma2", "mixtral", "qwen3", "llama_gqa_bf16_sharded", "cohere_qk_norm", "qwen2_moe", "falcon"}) {
    const Checkpoint checkpoint = golden_checkpoint(name);
    const std::vector<std::int32_t> text = some_ids(*checkpoint.model, 12);
    const AttentionConfig& c = checkpoint.model->config().blocks.front().attention();
    const Written one = run(*checkpoint.model, text, {}, nullptr);
    for (int n = 2; n <= static_cast<int>(c.n_heads); ++n) {
      if (n > c.n_kv_heads && n % c.n_kv_heads != 0) continue;
      SCOPED_TRACE(fmt::format("{} {}", name, n));
      run_local_ranks(n, [&](Ranks& ranks) {
        RankedHeads split(ranks, checkpoint.model);
        expect_same(run(*split.model(), text, {}, &split), one);
      });
    }
  }
}

TEST(RankedHeads, AreWholeGroupsOrPartsOfOne) {
  EXPECT_EQ(divide_heads(8, 8, 3), (std::vector<std::int64_t>{0, 2, 5, 8}));
  EXPECT_EQ(divide_heads(8, 4, 3), (std::vector<std::int64_t>{0, 2, 4, 8}));
  EXPECT_EQ(divide_heads(8, 2, 4), (std::vector<std::int64_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(divide_heads(6, 2, 4), (std::vector<std::int64_t>{0, 1, 3, 4, 6}));
  EXPECT_EQ(divide_heads(6, 1, 5), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 6}));
  EXPECT_THROW(divide_heads(8, 2, 3), BadInput);
  EXPECT_THROW(divide_heads(8, 2, 10), BadInput);
}

TEST(RankedLayers, AreBalancedByBytes) {
  const std::vector<std::int64_t> same(8, 10);
  EXPECT_EQ(divide_layers(same, 0, 1), (std::vector{0, 8}));
  EXPECT_EQ(divide_layers(same, 0, 4), (std::vector{0, 2, 4, 6, 8}));
  EXPECT_EQ(divide_layers(same, 20, 2), (std::vector{0, 5, 8}));
  EXPECT_EQ(divide_layers(same, 1000, 3), (std::vector{0, 3, 7, 8}));
  EXPECT_EQ(divide_layers(same, 0, 8), (std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(RankedLayers, NeedALayerEach) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  const auto n = static_cast<int>(checkpoint.model->config().blocks.size()) + 1;
  try {
    run_local_ranks(n, [&](Ranks& ranks) { RankedLayers(ranks, *checkpoint.model); });
    ADD_FAILURE();
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(fmt::format("at most as many ranks as layers ({}), got {}", n - 1, n)));
  }
}

TEST(RankedLayers, RefusePassesThatTheyDoNotDivide) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  run_local_ranks(2, [&](Ranks& ranks) {
    RankedLayers split(ranks, *checkpoint.model);
    Probe probe(*checkpoint.model);
    ThreadPool pool(1);
    GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
    context.taps = &probe;
    context.split = &split;
    EXPECT_THROW(score(context, some_ids(*checkpoint.model, 3), {}), Unsupported);
  });
}

}  // namespace
}  // namespace vitrine::test
