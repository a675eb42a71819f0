// Model::forward_backward throws for passes that cannot be differentiated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temp_folder.h"
#include "support/backward.h"

namespace vitrine::test {
namespace {

class BackwardRefusals : public testing::Test {
 protected:
  std::string refusal(const std::function<void(Pass&)>& change) {
    Gradients gradients;
    for_each_param(model_.config(), model_.params(),
                   [&](const Param& param, const std::string&, const Shape&) { gradients.add(param); });
    Tape tape(gradients);
    Arena arena;
    LossRequest loss{targets_, {}};
    LossResult found;
    Pass pass{{pool_, default_kernels(), arena}, {{0, 3, 0, nullptr}}, {}};
    pass.training.tape = &tape;
    pass.training.loss = &loss;
    pass.training.result = &found;
    change(pass);
    return message_of<Error>([&] { model_.forward_backward(pass, ids_); });
  }

  const Checkpoint checkpoint_ = golden_checkpoint("gemma2");
  const Model& model_ = *checkpoint_.model;
  ThreadPool pool_{2};
  Ids ids_ = {1, 2, 3}, targets_ = {2, 3, 4};
};

TEST_F(BackwardRefusals, AValidPassIsAccepted) {
  EXPECT_EQ(refusal([](Pass&) {}), "");
}

TEST_F(BackwardRefusals, AMissingLossOrTape) {
  EXPECT_THAT(refusal([](Pass& p) { p.training.tape = nullptr; }), testing::HasSubstr("expected a tape and a loss"));
  EXPECT_THAT(refusal([](Pass& p) { p.training.loss = nullptr; }), testing::HasSubstr("expected a tape and a loss"));
}

TEST_F(BackwardRefusals, RoundedKeys) {
  for (const KvTypes types : {KvTypes(KvType::bf16), KvTypes(KvType::f16), KvTypes(KvType::f32, KvType::int8)}) {
    EXPECT_THAT(refusal([types](Pass& p) { p.kv_types = types; }), testing::HasSubstr("not f32"));
  }
}

TEST_F(BackwardRefusals, ACache) {
  KvCache cache = model_.make_cache(3, KvType::f32);
  EXPECT_THAT(refusal([&](Pass& p) { p.segments[0].cache = &cache; }), testing::StartsWith("[a cache]"));
  EXPECT_EQ(cache.length(), 0);
}

/// A replacement that a tap does not record would interrupt the gradient. The next op detects it.
TEST_F(BackwardRefusals, AnUnrecordedReplacement) {
  for (const char* site :
       {"hook_embed", "blocks.1.ln1.hook_scale", "blocks.0.attn.hook_pattern", "blocks.2.mlp.hook_post", "hook_logits",
        "blocks.1.attn.hook_result", "blocks.1.hook_attn_in", "blocks.1.hook_q_input", "blocks.1.hook_k_input",
        "blocks.1.hook_v_input", "blocks.1.hook_mlp_in"}) {
    Probe replaced(model_, {site}, Probe::Replace::by_itself);
    EXPECT_THAT(refusal([&](Pass& p) { p.taps = &replaced; }), testing::HasSubstr("without a backward")) << site;
  }
}

TEST_F(BackwardRefusals, TargetsAndWeightsThatDoNotFit) {
  targets_ = {2, 3};  // nothing is known to follow the last one
  EXPECT_EQ(refusal([](Pass&) {}), "");
  EXPECT_THAT(refusal([](Pass& p) {
                p.segments = {{0, 1, 0, nullptr}, {1, 2, 0, nullptr}};
              }),
              testing::HasSubstr("3 targets, got 2"));
  for (const Ids& wrong : {Ids{}, Ids{2}, Ids{2, 3, 4, 5}}) {
    targets_ = wrong;
    EXPECT_THAT(refusal([](Pass&) {}), testing::HasSubstr("3 targets, got " + std::to_string(wrong.size())));
  }
  const auto vocab_size = static_cast<std::int32_t>(model_.config().vocab_size);
  for (const std::int32_t id : {-1, vocab_size, INT32_MAX, INT32_MIN}) {
    targets_ = {2, id, 4};
    EXPECT_THAT(refusal([](Pass&) {}), testing::HasSubstr("got " + std::to_string(id)));
  }
  targets_ = {2, 3, 4};
  const std::vector<float> weights = {1, 1};
  LossRequest request{.targets = targets_, .weights = weights};
  EXPECT_THAT(refusal([&](Pass& p) { p.training.loss = &request; }), testing::HasSubstr("3 weights or none, got 2"));
}

}  // namespace
}  // namespace vitrine::test
