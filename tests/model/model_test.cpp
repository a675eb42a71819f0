// The model's checks and error messages, packed documents, and RoPE frequencies that depend on the length.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// A golden model with the first element of one parameter replaced.
struct Poisoned {
  Checkpoint checkpoint;
  std::vector<float> storage;
  std::unique_ptr<Model> model;

  Poisoned(const std::string& golden, const std::string& name, float value) : checkpoint(golden_checkpoint(golden)) {
    ModelParams params = checkpoint.model->params();
    for_each_param(checkpoint.model->config(), params, [&](Param& param, const std::string& at, const Shape& shape) {
      if (at != name) return;
      const float* data = reinterpret_cast<const float*>(param.view.data);
      storage.assign(data, data + shape.count());
      storage[0] = value;
      param.view.data = reinterpret_cast<const std::byte*>(storage.data());
    });
    model = std::make_unique<Model>(checkpoint.model->config(), params, std::vector<std::shared_ptr<const void>>{});
  }
};

TEST(Forward, NamesTheFirstSiteWithANonFiniteValue) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const struct {
    const char* param;
    float value;
    const char* place;
  } cases[] = {{"embed.weight", inf, "[hook_embed]"},
               {"blocks.0.mlp.w_down.weight", nan, "[blocks.0.hook_resid_post]"},
               {"blocks.1.attn.wo.weight", inf, "[blocks.1.hook_resid_post]"},
               {"blocks.1.ln2.weight", nan, "[blocks.1.hook_resid_post]"},
               {"ln_final.weight", nan, "[unembed.hook_out]"},
               {"unembed.weight", inf, "[unembed.hook_out]"}};
  for (const auto& c : cases) {
    const Poisoned poisoned("llama_mha", c.param, c.value);
    EXPECT_THAT(error_of([&] {
                  logits_of(*poisoned.model, std::vector<std::int32_t>{0, 1, 2});
                }),
                HasSubstr(c.place))
        << c.param;
  }
}

TEST(Forward, RejectsInvalidIdsAndLengths) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  const Model& model = *checkpoint.model;
  const auto vocab_size = static_cast<std::int32_t>(model.config().vocab_size);
  const auto n = static_cast<std::size_t>(model.config().max_seq_len);
  const auto run = [&](const std::vector<std::int32_t>& ids) { return error_of([&] { logits_of(model, ids); }); };
  EXPECT_THAT(run({vocab_size}), HasSubstr(std::to_string(vocab_size)));
  EXPECT_THAT(run({-1}), HasSubstr("got -1"));
  EXPECT_THAT(run({}), HasSubstr("segment 0"));
  EXPECT_EQ(run(std::vector<std::int32_t>(n, 1)), "no error");
  const std::string too_long = run(std::vector<std::int32_t>(n + 1, 1));
  EXPECT_THAT(too_long, HasSubstr(std::to_string(n)));
  EXPECT_THAT(too_long, HasSubstr(std::to_string(n + 1)));
}

TEST(Forward, RejectsSegmentsThatContradictTheirCaches) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  const Model& model = *checkpoint.model;
  const std::vector<std::int32_t> ids = {1, 2, 3, 4};
  ThreadPool pool(1);
  Arena arena;
  KvCache cache = model.make_cache(8, KvType::f32);
  const auto run = [&](std::vector<Segment> segments, LogitRequest logits = {}) {
    Pass pass{{pool, default_kernels(), arena}, std::move(segments), std::move(logits)};
    return error_of([&] { model.forward(pass, ids); });
  };
  EXPECT_THAT(run({{0, 4, 2, &cache}}), HasSubstr("has 0 of 8"));
  EXPECT_THAT(run({{0, 4, 1, nullptr}}), HasSubstr("without a cache"));
  EXPECT_THAT(run({{0, 2, 0, &cache}, {2, 2, 0, &cache}}), HasSubstr("share"));
  EXPECT_THAT(run({{0, 2, 0, nullptr}, {3, 1, 0, nullptr}}), HasSubstr("row 2"));
  EXPECT_THAT(run({{0, 3, 0, nullptr}}), HasSubstr("cover 4"));
  EXPECT_THAT(run({{0, 4, 0, nullptr}}, {LogitRequest::Rows::range, 2, 5, {}}), HasSubstr("[2, 5)"));
  EXPECT_EQ(run({{0, 4, 0, &cache}}), "no error");
  EXPECT_EQ(cache.length(), 4);
  EXPECT_EQ(run({{0, 4, 4, &cache}}), "no error");
  EXPECT_THAT(run({{0, 4, 8, &cache}}), HasSubstr("8 of 8"));
  EXPECT_THAT(error_of([&] { model.make_cache(model.config().max_seq_len + 1, KvType::f32); }), HasSubstr("context"));
}

/// Segments without caches are separate documents. Packing does not change their logits.
TEST(Forward, PackedDocumentsAreIndependent) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  const Model& model = *checkpoint.model;
  const auto first = some_ids(model, 9, 5), second = some_ids(model, 7, 6);
  std::vector<std::int32_t> both = first;
  both.insert(both.end(), second.begin(), second.end());
  ThreadPool pool(2);
  Arena arena;
  std::vector<float> logits;
  Pass pass{{pool, default_kernels(), arena}, {{0, 9, 0, nullptr}, {9, 7, 0, nullptr}}, {}};
  pass.logits = {LogitRequest::Rows::range, 0, 16,
                 [&](std::int64_t, const Tensor& t) { logits.insert(logits.end(), t.data, t.data + t.count()); }};
  model.forward(pass, both);
  std::vector<float> alone = logits_of(model, first);
  const std::vector<float> rest = logits_of(model, second);
  alone.insert(alone.end(), rest.begin(), rest.end());
  EXPECT_TRUE(same_bits(logits, alone));
}

TEST(Forward, TheArenaDoesNotGrowFromPassToPass) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  ThreadPool pool(1);
  Arena arena;
  const auto ids = golden_ids("gemma2");
  std::int64_t after_first = 0;
  for (int i = 0; i < 5; ++i) {
    Pass pass{{pool, default_kernels(), arena}, {{0, static_cast<std::int64_t>(ids.size()), 0, nullptr}}, {}};
    checkpoint.model->forward(pass, ids);
    if (i == 0) after_first = arena.reserved_bytes();
  }
  EXPECT_EQ(arena.reserved_bytes(), after_first);
}

TEST(Forward, CanBeInterrupted) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  ThreadPool pool(1);
  Arena arena;
  const std::atomic<bool> interrupt = true;
  const auto ids = golden_ids("gemma2");
  Pass pass{{pool, default_kernels(), arena, &interrupt}, {{0, static_cast<std::int64_t>(ids.size()), 0, nullptr}}};
  pass.logits = {LogitRequest::Rows::last_of_segments, 0, 0, [](std::int64_t, const Tensor&) {}};
  EXPECT_THROW(checkpoint.model->forward(pass, ids), Interrupted);
}

/// RoPE scalings that depend on the length use the planned length of a sequence, so the first tokens in a cache of the
/// text's length have the same bits as in the whole text.
TEST(Forward, ASequenceHasTheFrequenciesOfItsPlannedLength) {
  for (const char* golden : {"phi3_long", "llama_dynamic_rope"}) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    const Model& model = *checkpoint.model;
    const std::vector<std::int32_t> ids = golden_ids(golden);
    const std::span<const std::int32_t> first_ids(ids.data(), 10);
    const std::vector<float> whole = logits_of(model, ids);
    const std::vector<float> first(whole.begin(), whole.begin() + 10 * model.config().vocab_size);

    ThreadPool pool(1);
    Arena arena;
    KvCache cache = model.make_cache(static_cast<std::int64_t>(ids.size()), KvType::f32);
    std::vector<float> logits;
    Pass pass{{pool, default_kernels(), arena}, {{0, 10, 0, &cache}}, {}};
    pass.logits = {LogitRequest::Rows::range, 0, 10,
                   [&](std::int64_t, const Tensor& t) { logits.insert(logits.end(), t.data, t.data + t.count()); }};
    model.forward(pass, first_ids);
    EXPECT_TRUE(same_bits(logits, first)) << golden;
    EXPECT_FALSE(same_bits(logits_of(model, first_ids), first)) << golden << ": a short text has other frequencies";
  }
}

TEST(Config, RejectsInvalidAndUnsupportedOptions) {
  const Checkpoint checkpoint = golden_checkpoint("gemma2");
  const auto with = [&](auto change) {
    ModelConfig config = checkpoint.model->config();
    change(config);
    return error_of([&] { validate(config, "test"); });
  };
  EXPECT_EQ(with([](ModelConfig&) {}), "no error");
  EXPECT_THAT(with([](ModelConfig& c) { c.encoder = static_cast<const StackConfig&>(c); }),
              HasSubstr("cross-attention in every layer"));
  const DenseConfig expert{8, Activation::silu, true, false};
  const auto with_experts = [&](std::int64_t n, std::int64_t top_k) {
    return with([&](ModelConfig& c) {
      c.blocks[1].sublayers[1].what = MoeConfig{n, top_k, expert, true, std::nullopt};
    });
  };
  EXPECT_EQ(with_experts(8, 2), "no error");
  EXPECT_THAT(with_experts(8, 9), HasSubstr("top_k"));
  EXPECT_THAT(with_experts(0, 0), HasSubstr("n_experts"));
  EXPECT_THAT(with_experts(1 << 20, 2), HasSubstr("n_experts"));
  EXPECT_THAT(with([](ModelConfig& c) { c.blocks[0].sublayers[1].input = Sublayer::Input::previous; }),
              HasSubstr("shares the norm"));
  EXPECT_THAT(with([](ModelConfig& c) { c.blocks[0].sublayers.push_back(c.blocks[0].sublayers[1]); }),
              HasSubstr("one sublayer called mlp"));
  EXPECT_THAT(with([](ModelConfig& c) { c.blocks[0].sublayers.clear(); }), HasSubstr("a block with sublayers"));
  EXPECT_THAT(with([](ModelConfig& c) { c.blocks[0].sublayers[0].scale = 0; }), HasSubstr("residual_scale"));
  EXPECT_THAT(with([](ModelConfig& c) { c.head.scale = -1; }), HasSubstr("scale"));
  EXPECT_THAT(with([](ModelConfig& c) { find<AttentionConfig>(c.blocks[0])->rope->magnitude = INFINITY; }),
              HasSubstr("magnitude"));
  EXPECT_THAT(with([](ModelConfig& c) {
                CrossAttentionConfig cross{*find<AttentionConfig>(c.blocks[1])};
                cross.rope.reset();
                cross.bidirectional = true;
                c.blocks[1].sublayers.push_back({cross});
              }),
              HasSubstr("cross"));
  EXPECT_THAT(with([](ModelConfig& c) { c.blocks[0].sublayers[0].norms.sum = c.blocks[0].sublayers[0].norms.pre; }),
              HasSubstr("got both"));
  EXPECT_THAT(with([](ModelConfig& c) { c.embedding.n_types = -1; }), HasSubstr("n_types"));
  EXPECT_THAT(with([](ModelConfig& c) { find<AttentionConfig>(c.blocks[0])->n_kv_heads = 3; }), HasSubstr("multiple"));
  EXPECT_THAT(with([](ModelConfig& c) { c.blocks.clear(); }), HasSubstr("n_layers"));
  EXPECT_THAT(with([](ModelConfig& c) { find<AttentionConfig>(c.blocks[0])->rope->dim = 7; }), HasSubstr("even"));
}

}  // namespace
}  // namespace vitrine::test
