// Several residual streams (AltUp), LAuReL and sparse gates.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "support/backward.h"

namespace vitrine::test {
namespace {

class Streams : public testing::Test {
 protected:
  Checkpoint checkpoint_ = golden_checkpoint("gemma3n");
  const Model& model_ = *checkpoint_.model;
  std::vector<std::int32_t> ids_ = golden_ids("gemma3n");
};

TEST_F(Streams, AreNextToEachOtherInARow) {
  const std::int64_t d = model_.config().d_model, n = model_.config().altup->n_streams;
  for (std::size_t layer = 0; layer <= model_.config().n_layers(); ++layer) {
    EXPECT_EQ(model_.config().width_before(layer), n * d);
  }
  EXPECT_EQ(model_.config().output_width(), d);
  Probe probe(model_, {"*"});
  logits_of(model_, ids_, {.taps = &probe});
  const auto rows = static_cast<std::int64_t>(ids_.size());
  EXPECT_EQ(probe.values.at("blocks.0.hook_resid_pre").shape, (Shape{rows, n * d}));
  EXPECT_EQ(probe.values.at("blocks.0.altup.hook_predicted").shape, (Shape{rows, n, d}));
  EXPECT_EQ(probe.values.at("blocks.0.altup.hook_corrected").shape, (Shape{rows, n, d}));
  EXPECT_EQ(probe.values.at("blocks.0.hook_resid_mid").shape, (Shape{rows, d}));
}

/// The first stream has the embedding, the others its magnitude; a per-layer embedding is added to the others alone.
TEST_F(Streams, BeginWithTheEmbedding) {
  Probe probe(model_, {"*"});
  logits_of(model_, ids_, {.taps = &probe});
  const std::vector<float>&first = probe.values.at("blocks.0.hook_resid_pre").data,
        &embedding = probe.values.at("hook_embed").data;
  const std::vector<float>&corrected = probe.values.at("blocks.1.altup.hook_corrected").data,
        &after = probe.values.at("blocks.1.hook_resid_post").data;
  const auto d = static_cast<std::size_t>(model_.config().d_model);
  for (std::size_t i = 0; i < embedding.size(); ++i) {
    const std::size_t at = i / d * 3 * d + i % d;
    EXPECT_EQ(first[at], embedding[i]) << i;
    EXPECT_EQ(after[at], corrected[at]) << i;
    EXPECT_NE(after[at + d], corrected[at + d]) << i;
  }
}

/// A pass that begins at a later layer has the rows of all streams.
TEST_F(Streams, APassBeginsAtALaterLayer) {
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
}

TEST_F(Streams, GradientsBeginAtAnyLayer) {
  const Values whole = gradients_of(model_, ids_);
  for (const int first : {0, 1, 2, 4}) {
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

TEST_F(Streams, AreChecked) {
  const auto refusal = [&](auto change) {
    ModelConfig config = model_.config();
    change(config);
    EXPECT_THROW(validate(config, "config"), BadInput);
  };
  refusal([](ModelConfig& c) { c.altup->active = 3; });
  refusal([](ModelConfig& c) { c.altup->active = -1; });
  refusal([](ModelConfig& c) { c.altup->n_streams = 1; });
  refusal([](ModelConfig& c) { c.altup->n_streams = kMaxStreams + 1; });
  refusal([](ModelConfig& c) { c.altup.reset(); });
  refusal([](ModelConfig& c) { c.blocks[2].sublayers.back().input = Sublayer::Input::stream; });
  refusal([](ModelConfig& c) { c.blocks[2].sublayers[2].input = Sublayer::Input::corrected; });
  refusal([](ModelConfig& c) { c.blocks[2].sublayers[1].sum_scale = 0; });
  refusal([](ModelConfig& c) { find<LaurelConfig>(c.blocks[1])->rank = 0; });
  refusal([](ModelConfig& c) { find<DenseConfig>(c.blocks[0])->gated = false; });
}

}  // namespace
}  // namespace vitrine::test
