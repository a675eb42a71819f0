// Layout and account: the layout matches the sites of a forward, and the account matches PyTorch's counts.
#include "inspect/account.h"

#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"
#include "model/count.h"
#include "support/figures.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

ModelConfig preset(const std::string& name) {
  const Json json = preset_or_config(name);
  return read_model_config(family_of(json, name), json, name);
}

class LayoutOf : public testing::TestWithParam<std::string> {};

TEST_P(LayoutOf, MatchesTheForward) {
  const Checkpoint checkpoint = golden_checkpoint(GetParam());
  const ModelConfig& config = checkpoint.model->config();
  const auto values = golden_values(GetParam());
  const auto n = static_cast<std::int64_t>(golden_ids(GetParam()).size());
  Probe probe(*checkpoint.model);
  logits_of(*checkpoint.model, golden_ids(GetParam()), {.taps = &probe});
  const auto without_expert = [](const std::string& name) {  // in the layout one expert represents all
    return std::regex_replace(name, std::regex("experts\\.(\\d+|shared)\\."), "experts.E.");
  };
  std::map<std::string, Shape> shapes;
  for (const auto& [name, value] : probe.values) {
    if (name.find(".experts.shared.") == std::string::npos) shapes[without_expert(name)] = value.shape;
  }
  std::set<std::string> expected;
  for (int layer = 0; layer < static_cast<int>(config.n_layers()); ++layer) {
    for (const SiteLayout& site : site_layout(config, layer)) {
      const std::string name = name_of(site.site);
      ASSERT_TRUE(shapes.contains(name)) << name;
      const Shape& shape = shapes.at(name);
      if (name.ends_with("hook_log_decay")) {  // of a decay by channel it has the channels, too
        expected.insert(name);
        continue;
      }
      ASSERT_EQ(static_cast<std::size_t>(shape.rank()), site.shape.size()) << name;
      for (int i = 0; i < shape.rank(); ++i) {
        const Extent& extent = site.shape[static_cast<std::size_t>(i)];
        if (extent.letter == 'n') {
          EXPECT_THAT(shape[i], testing::AllOf(testing::Ge(1), testing::Le(n))) << name;
        } else {
          EXPECT_EQ(shape[i], extent.letter != 0 ? n + extent.size : extent.size) << name;
        }
      }
      expected.insert(name);
    }
  }
  std::set<std::string> visited;
  for (const std::string& name : probe.order) visited.insert(without_expert(name));
  EXPECT_EQ(visited, expected);
}

INSTANTIATE_TEST_SUITE_P(Each, LayoutOf, testing::ValuesIn(golden_cases()),
                         [](const auto& param_info) { return param_info.param; });

TEST(Layout, GroupsEqualLayers) {
  const std::vector<LayerGroup> groups = layer_groups(preset("gemma-2-2b"));
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(to_string(groups[0]), "0, 2, …, 24");
  EXPECT_EQ(to_string(groups[1]), "1, 3, …, 25");
  EXPECT_EQ(to_string(layer_groups(preset("gpt2"))[0]), "0-11");
}

TEST(Account, CountsTheSameProductsAsPyTorch) {
  const Json figures = reference_figures();
  for (const auto& [name, model] : figures["models"].items()) {
    const Json json = tiny_config(name, model);
    const ModelConfig config = read_model_config(family_of(json, name), json, name);
    const auto length = static_cast<std::int64_t>(figures["ids"].size());
    EXPECT_EQ(account(config, {Phase::forward, 2, length}).total.flops, model["flops_forward"].get<double>()) << name;
    EXPECT_EQ(account(config, {Phase::train, 2, length}).total.flops, model["flops_train"].get<double>()) << name;
  }
}

TEST(Account, MatchesTheFormulas) {
  const ModelConfig config = preset("gpt2");
  const double b = 3, n = 100, d = 768, layers = 12, vocab = 50257;
  const Account forward = account(config, {Phase::forward, 3, 100, 4.0});
  // per block: projections 8bnd², FFN 16bnd², scores and mix 4bn²d
  EXPECT_EQ(forward.total.flops, layers * (24 * b * n * d * d + 4 * b * n * n * d) + 2 * b * n * d * vocab);
  EXPECT_EQ(forward.total.map_bytes, layers * 2 * b * 12 * n * n * 4);
  const double hidden = layers * 4 * b * d * (n * n - n * (n + 1) / 2);
  EXPECT_EQ(forward.total.flops - forward.total.visible_flops, hidden);
  const Account prefill = account(config, {Phase::prefill, 3, 100, 4.0});
  EXPECT_EQ(forward.total.flops - prefill.total.flops, 2 * b * (n - 1) * d * vocab);

  const Account decode = account(config, {Phase::decode, 3, 100, 4.0});
  EXPECT_EQ(decode.total.flops, layers * (24 * b * d * d + 4 * b * n * d) + 2 * b * d * vocab);
  EXPECT_EQ(decode.total.kv_bytes, layers * 2 * b * (n + 1) * d * 4) << "reads all keys and values, appends its own";
  EXPECT_EQ(kv_bytes_per_token(config, KvType::f16), layers * 2 * d * 2);
  EXPECT_EQ(kv_bytes_per_token(config, {KvType::int8, KvType::int4}), layers * 12 * (64 + 2 * 2 + 32 + 2 * 3));
}

TEST(Account, WindowsLimitScoresAndTheCache) {
  const ModelConfig config = preset("gemma-2-2b");
  const Account decode = account(config, {Phase::decode, 1, 8192});
  const auto scores = [&](std::size_t group) {
    for (const Op& op : decode.layers[group].ops) {
      if (op.name == "attn.scores") return op.cost.flops;
    }
    return 0.0;
  };
  EXPECT_EQ(scores(0), 2.0 * 8 * 256 * 4096);
  EXPECT_EQ(scores(1), 2.0 * 8 * 256 * 8192);
  const MemoryEstimate memory = estimate_memory(config, {Phase::decode, 1, 8192, 2.0, KvType::bf16}, 256);
  EXPECT_EQ(memory.kv_cache, 13.0 * (4096 + 8192) * 4 * 256 * 2 * 2);
  EXPECT_EQ(memory.weights, 2.0 * 2'614'341'888);
  ModelConfig tiny = config;
  for (AttentionConfig* a : every<AttentionConfig>(tiny.blocks)) a->window = 4;
  const Account forward = account(tiny, {Phase::forward, 1, 6});
  const auto& ops = forward.layers[0].ops;
  const auto of_scores = std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.name == "attn.scores"; });
  ASSERT_NE(of_scores, ops.end());
  EXPECT_EQ(of_scores->cost.visible_flops, 2.0 * 8 * 256 * (1 + 2 + 3 + 4 + 4 + 4)) << "6 queries, window 4";
}

TEST(Account, RejectsInvalidBatchesAndLengths) {
  EXPECT_THROW(account(preset("gpt2"), {Phase::prefill, 1, 1025}), BadInput);
  EXPECT_THROW(account(preset("gpt2"), {Phase::prefill, 1, 0}), BadInput);
  EXPECT_THROW(account(preset("gpt2"), {Phase::prefill, 0, 1}), BadInput);
}

TEST(Account, EstimatesTheMemoryOfAPass) {
  Json json = preset_or_config("gemma-2-2b");
  set_config_keys(json, {"d_model=256", "n_layers=2", "d_ff=1024", "vocab_size=1000", "n_heads=4", "head_dim=64"},
                  "test");
  ScratchFolder folder;
  ThreadPool pool(1);
  init_checkpoint(json, "test", folder / "m", DType::f32, 1, pool);
  const Checkpoint checkpoint = load_checkpoint(folder / "m");
  const Model& model = *checkpoint.model;
  KvCache cache = model.make_cache(512, KvType::f32);
  Arena arena;
  Pass pass{{pool, default_kernels(), arena}, {{0, 512, 0, &cache}}, {}};
  pass.logits = {LogitRequest::Rows::range, 0, 512, [](std::int64_t, const Tensor&) {}};
  model.forward(pass, some_ids(model, 512));
  const MemoryEstimate estimate = estimate_memory(model.config(), {Phase::forward, 1, 512, 4.0}, 512);
  EXPECT_EQ(estimate.kv_cache, static_cast<double>(cache.bytes()));
  EXPECT_GE(estimate.activations, 0.8 * static_cast<double>(arena.touched_bytes()));
  EXPECT_LE(estimate.activations, 1.5 * static_cast<double>(arena.touched_bytes()));
}

}  // namespace
}  // namespace vitrine::test
