// Layers that read the keys and values of earlier ones, and per-layer embeddings.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "support/backward.h"

namespace vitrine::test {
namespace {

/// Changes a site, and records all others.
class Change : public Probe {
 public:
  Change(const Model& model, std::string site) : Probe(model, {"*"}), site_(std::move(site)) {}

  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    if (name_of(id) != site_) return Probe::visit(pass, id, value);
    const Tensor copy = pass.tensor(value.shape);
    std::transform(value.data, value.data + value.count(), copy.data, [](float x) { return 2 * x + 1; });
    return copy;
  }

 private:
  std::string site_;
};

class SharedKeys : public testing::Test {
 protected:
  Checkpoint checkpoint_ = golden_checkpoint("gemma4");
  const Model& model_ = *checkpoint_.model;
  std::vector<std::int32_t> ids_ = golden_ids("gemma4");
};

TEST_F(SharedKeys, AreThoseOfTheLastLayerOfTheKindWithItsOwn) {
  const std::vector<BlockConfig>& blocks = model_.config().blocks;
  std::vector<std::int64_t> layers;
  for (const BlockConfig& block : blocks) layers.push_back(find<AttentionConfig>(block)->kv_layer.value_or(-1));
  EXPECT_EQ(layers, (std::vector<std::int64_t>{-1, -1, -1, -1, 2, 3}));
  Probe probe(model_, {"*"});
  logits_of(model_, ids_, {.taps = &probe});
  EXPECT_TRUE(
      same_bits(probe.values.at("blocks.5.attn.hook_k").data, probe.values.at("blocks.3.attn.hook_rot_k").data));
  EXPECT_TRUE(
      same_bits(probe.values.at("blocks.4.attn.hook_v").data, probe.values.at("blocks.2.attn.v_norm.hook_out").data));
  EXPECT_FALSE(probe.values.contains("blocks.5.attn.hook_rot_k"));
}

TEST_F(SharedKeys, AreKeptOnce) {
  const std::vector<CacheLayerConfig> layers = cache_layers(model_.config());
  for (std::size_t i = 0; i < layers.size(); ++i) EXPECT_EQ(layers[i].kv.has_value(), i < 4) << i;
}

/// A change of what one layer reads leaves the layer that has the keys and values unchanged.
TEST_F(SharedKeys, AreChangedForOneLayerAlone) {
  Probe before(model_, {"*"});
  const std::vector<float> logits = logits_of(model_, ids_, {.taps = &before});
  for (const char* site : {"blocks.4.attn.hook_k", "blocks.4.attn.hook_v"}) {
    Change change(model_, site);
    EXPECT_FALSE(same_bits(logits_of(model_, ids_, {.taps = &change}), logits)) << site;
    for (const auto& [name, value] : before.values) {
      const bool is_later = name.starts_with("blocks.4.") || name.starts_with("blocks.5.") || name[0] != 'b';
      if (is_later) continue;
      EXPECT_TRUE(same_bits(change.values.at(name).data, value.data)) << site << ", " << name;
    }
    for (const char* same : {"blocks.5.attn.hook_k", "blocks.5.attn.hook_v", "blocks.4.attn.hook_q"}) {
      EXPECT_TRUE(same_bits(change.values.at(same).data, before.values.at(same).data)) << site << ", " << same;
    }
    EXPECT_FALSE(
        same_bits(change.values.at("blocks.4.attn.hook_z").data, before.values.at("blocks.4.attn.hook_z").data));
    EXPECT_THROW(chunked_logits_of(model_, ids_, 4, {.taps = &change}), Unsupported) << site;
  }
}

TEST_F(SharedKeys, NeedTheLayersThatHaveThem) {
  for (std::size_t layer = 0; layer <= 6; ++layer) {
    EXPECT_EQ(can_begin_at(model_.config(), layer), layer < 3 || layer == 6) << layer;
  }
}

/// A pass that begins at a later layer computes the inputs of per-layer embeddings from its tokens.
TEST_F(SharedKeys, APassBeginsAtALaterLayer) {
  Probe probe(model_, {"*hook_resid_pre"});
  const std::vector<float> logits = logits_of(model_, ids_, {.taps = &probe});
  ThreadPool pool(1);
  Arena arena;
  Value& stream = probe.values.at("blocks.1.hook_resid_pre");
  std::vector<float> made;
  Pass pass{{pool, default_kernels(), arena}, {{0, static_cast<std::int64_t>(ids_.size()), 0, nullptr}}, {}};
  pass.logits = {LogitRequest::Rows::range, 0, static_cast<std::int64_t>(ids_.size()),
                 [&](std::int64_t, const Tensor& t) { made.insert(made.end(), t.data, t.data + t.count()); }};
  pass.start = {1, Tensor{stream.data.data(), stream.shape}};
  model_.forward(pass, ids_);
  EXPECT_TRUE(same_bits(made, logits));
  pass.start->layer = 3;
  EXPECT_THROW(model_.forward(pass, ids_), Unsupported);
}

/// Gradients that begin at any layer are those of the whole model: what earlier layers have computed is then an input.
TEST_F(SharedKeys, GradientsBeginAtAnyLayer) {
  const Values whole = gradients_of(model_, ids_);
  for (const int first : {0, 1, 3, 4, 5}) {
    for (const bool recompute : {false, true}) {
      const Values part =
          gradients_of(model_, ids_, {.recompute = recompute, .begin = BlockSite{first}(Site::resid_pre)});
      for (const auto& [name, value] : whole) {
        if (!name.starts_with("blocks.") || name[7] - '0' < first) continue;
        EXPECT_TRUE(same_bits(part.at(name).data, value.data)) << first << ", " << recompute << ", " << name;
      }
    }
  }
}

TEST_F(SharedKeys, AreChecked) {
  const auto refusal = [&](std::size_t layer, std::int64_t from) {
    ModelConfig config = model_.config();
    find<AttentionConfig>(config.blocks[layer])->kv_layer = from;
    EXPECT_THROW(validate(config, "config"), BadInput) << layer << " from " << from;
  };
  refusal(4, 4);   // its own
  refusal(4, 5);   // a later one
  refusal(4, 3);   // without a window
  refusal(5, 4);   // one that reads those of another
  refusal(5, 99);  // none
  refusal(5, -1);
}

}  // namespace
}  // namespace vitrine::test
