// Every type of keys and values with every usual head size: the same bits alone, in chunks, decoded, among others, on
// any number of threads, and on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/temp_folder.h"
#include "checkpoint/init.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

constexpr KvTypes kTypes[] = {KvType::f32,
                              KvType::bf16,
                              KvType::f16,
                              KvType::int8,
                              KvType::int4,
                              {KvType::int8, KvType::int4},
                              {KvType::f16, KvType::int8}};

/// Four query heads that share two heads of keys and values; the second half of the text is beyond the window.
Checkpoint model_with_heads_of(std::int64_t head_dim) {
  const Json config = {{"architectures", {"MistralForCausalLM"}},
                       {"model_type", "mistral"},
                       {"hidden_size", 32},
                       {"head_dim", head_dim},
                       {"intermediate_size", 32},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4},
                       {"num_key_value_heads", 2},
                       {"sliding_window", 20},
                       {"vocab_size", 64},
                       {"max_position_embeddings", 128},
                       {"initializer_range", 0.3}};
  const TempFolder folder;
  ThreadPool pool(1);
  init_checkpoint(config, "config", folder / "model", DType::f32, 7, pool);
  return load_checkpoint(folder / "model", {});
}

/// Logits of the text in the middle of three, each with its own cache, in steps of several tokens.
std::vector<float> logits_among_others(const Model& model, std::span<const std::int32_t> ids, const RunOptions& o) {
  const std::vector<std::vector<std::int32_t>> texts = {
      some_ids(model, 29, 2), {ids.begin(), ids.end()}, some_ids(model, 11, 3)};
  const std::int64_t steps[] = {2, 5, 4};
  ThreadPool pool(o.threads);
  Arena arena;
  std::vector<KvCache> caches;
  for (const auto& text : texts) caches.push_back(model.make_cache(std::ssize(text), o.kv_types));
  std::vector<float> logits;
  while (caches[1].length() < caches[1].capacity()) {
    Pass pass{{pool, *o.kernels, arena}, {}};
    std::vector<std::int32_t> batch;
    std::int64_t first_row = 0, end_row = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::int64_t n = std::min(steps[i], caches[i].capacity() - caches[i].length());
      if (n == 0) continue;
      if (i == 1) first_row = std::ssize(batch), end_row = first_row + n;
      pass.segments.push_back({std::ssize(batch), n, caches[i].length(), &caches[i]});
      const auto from = texts[i].begin() + caches[i].length();
      batch.insert(batch.end(), from, from + n);
    }
    pass.logits = {LogitRequest::Rows::range, first_row, end_row,
                   [&](std::int64_t, const Tensor& t) { logits.insert(logits.end(), t.data, t.data + t.count()); }};
    model.forward(pass, batch);
  }
  return logits;
}

class HeadSizes : public testing::TestWithParam<std::int64_t> {};

TEST_P(HeadSizes, EveryTypeOfKeysAndValuesGivesTheSameBits) {
  const Checkpoint checkpoint = model_with_heads_of(GetParam());
  const Model& model = *checkpoint.model;
  const std::vector<std::int32_t> ids = some_ids(model, 41);
  const std::vector<float> exact = logits_of(model, ids, {.kernels = &kernels_for(Isa::scalar)});
  for (const KvTypes types : kTypes) {
    const std::vector<float> alone = logits_of(model, ids, {.kernels = &kernels_for(Isa::scalar), .kv_types = types});
    EXPECT_EQ(same_bits(alone, exact), types == KvTypes()) << name_of(types.keys) << " has no effect";
    for (const Isa isa : available_isas()) {
      const std::string where = std::string(name_of(types.keys)) + ":" + std::string(name_of(types.values)) + ", " +
                                std::string(name_of(isa));
      RunOptions o{.kernels = &kernels_for(isa), .kv_types = types};
      EXPECT_TRUE(same_bits(alone, logits_of(model, ids, o))) << where;
      for (const std::int64_t chunk : {1, 6}) {
        EXPECT_TRUE(same_bits(alone, chunked_logits_of(model, ids, chunk, o))) << where << ", chunks of " << chunk;
      }
      o.threads = 3;
      EXPECT_TRUE(same_bits(alone, logits_of(model, ids, o))) << where << ", three threads";
      EXPECT_TRUE(same_bits(alone, logits_among_others(model, ids, o))) << where << ", among others";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HeadSizes, testing::Values(16, 32, 64, 80, 96, 128, 256),
                         [](const auto& param_info) { return std::to_string(param_info.param); });

}  // namespace
}  // namespace vitrine::test
