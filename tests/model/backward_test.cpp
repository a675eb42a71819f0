// Invariants of gradients, for every golden family.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/init.h"
#include "checkpoint/presets.h"
#include "support/backward.h"
#include "support/figures.h"

namespace vitrine::test {
namespace {

/// All sites except those that change the order of sums in the backward when they are tapped.
const std::vector<std::string> kPlainSites = {
    "*", "!*.hook_mlp_in", "!*.hook_mixer_in", "!*.hook_scores_raw", "!*.hook_attn_scores", "!*.hook_pattern"};
const std::vector<std::string> kStrips = {"*.hook_scores_raw", "*.hook_attn_scores", "*.hook_pattern"};

/// The golden's text, or the beginning of a long one.
Ids short_ids(const std::string& golden) {
  Ids ids = golden_ids(golden);
  ids.resize(std::min<std::size_t>(ids.size(), 64));
  return ids;
}

class Backward : public testing::TestWithParam<std::string> {
 protected:
  Values gradients(const BackwardOptions& o) const { return gradients_of(model_, ids_, o); }
  std::vector<Ids> texts() const {
    const std::int64_t most = model_.config().max_seq_len;
    return {ids_, some_ids(model_, std::min<std::int64_t>(5, most), 2),
            some_ids(model_, std::min<std::int64_t>(11, most), 3), some_ids(model_, 2, 4)};
  }

  const Checkpoint checkpoint_ = golden_checkpoint(GetParam());
  const Model& model_ = *checkpoint_.model;
  const Ids ids_ = short_ids(GetParam());
};

TEST_P(Backward, TheTapeDoesNotChangeTheForward) {
  const std::vector<float> logits = logits_of(model_, ids_, {.compute = Compute::f32});
  for (const bool recompute : {false, true}) {
    ModelGradients model_gradients(model_, {.recompute = recompute});
    model_gradients.forward_backward({ids_});
    EXPECT_TRUE(same_bits(model_gradients.logits, logits)) << recompute;
    EXPECT_EQ(model_gradients.cross_entropy, loss_of(model_, ids_));
  }
}

TEST_P(Backward, BitsDoNotDependOnThreads) {
  const Values alone = gradients({});
  for (const int threads : {2, 3, 5})
    EXPECT_EQ(first_difference(alone, gradients({.threads = threads})), "") << threads;
}

TEST_P(Backward, BitsDoNotDependOnRecomputation) {
  EXPECT_EQ(first_difference(gradients({}), gradients({.recompute = true})), "");
}

TEST_P(Backward, BitsDoNotDependOnTheInstructionSet) {
  const Values scalar = gradients({.kernels = &kernels_for(Isa::scalar)});
  for (const Isa isa : available_isas()) {
    EXPECT_EQ(first_difference(scalar, gradients({.kernels = &kernels_for(isa)})), "") << name_of(isa);
  }
}

TEST_P(Backward, TapsChangeNoBit) {
  const Values untapped = gradients({});
  for (const bool recompute : {false, true}) {
    Probe probe(model_, kPlainSites);
    probe.ask_gradients = true;
    EXPECT_EQ(first_difference(untapped, gradients({.taps = &probe, .recompute = recompute})), "") << recompute;
    EXPECT_TRUE(probe.gradients.contains("hook_embed"));
    EXPECT_TRUE(probe.gradients.contains("blocks.0.hook_resid_pre"));
    const bool by_head = attention_of(model_.config(), 0) != nullptr;  // latent attention has no inputs by head
    EXPECT_EQ(probe.gradients.contains("blocks.0.hook_attn_in"), by_head);
  }
}

/// Σ over the heads of a value `[T, n, d]`: `[T, d]`.
std::vector<double> sum_of_heads(const Value& value) {
  const auto n = static_cast<std::size_t>(value.shape[1]), d = static_cast<std::size_t>(value.shape[2]);
  std::vector<double> sums(value.data.size() / n);
  for (std::size_t i = 0; i < value.data.size(); ++i)
    sums[i / (n * d) * d + i % d] += static_cast<double>(value.data[i]);
  return sums;
}

/// The gradients of the heads' inputs add up to the contribution of attention to the gradient of the stream.
TEST_P(Backward, GradientsOfHeadInputsAddUp) {
  const auto learned = [&](const std::vector<std::string>& sites) {
    Probe probe(model_, sites);
    probe.ask_gradients = true;
    ModelGradients model_gradients(model_, {.taps = &probe});
    model_gradients.forward_backward({ids_});
    return probe.gradients;
  };
  const Values whole = learned({"*.hook_attn_in", "*.hook_resid_pre", "*.hook_resid_mid"});
  const Values parts = learned({"*.hook_q_input", "*.hook_k_input", "*.hook_v_input"});
  const Values chained = learned({"*.hook_attn_in", "*.hook_q_input", "*.hook_k_input", "*.hook_v_input"});
  for (std::size_t layer = 0; layer < model_.config().n_layers(); ++layer) {
    const AttentionConfig* const attention = attention_of(model_.config(), layer);
    if (attention == nullptr) continue;  // latent attention has no inputs by head
    if (attention->out_gate) continue;   // which reads the norm's output, too
    const std::string block = "blocks." + std::to_string(layer) + ".";
    const auto of_part = [&](const char* name) {  // a layer may have no keys or values of its own
      if (parts.contains(block + name)) return sum_of_heads(parts.at(block + name));
      return std::vector<double>(sum_of_heads(parts.at(block + "hook_q_input")).size());
    };
    const std::vector<double> all = sum_of_heads(whole.at(block + "hook_attn_in")), q = of_part("hook_q_input"),
                              k = of_part("hook_k_input"), v = of_part("hook_v_input");
    const auto bar = 1e-5 * static_cast<double>(largest(whole.at(block + "hook_resid_pre").data));
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_NEAR(all[i], q[i] + k[i] + v[i], bar) << block << i;
    for (const char* name : {"hook_q_input", "hook_k_input", "hook_v_input"}) {
      if (!parts.contains(block + name)) continue;
      EXPECT_TRUE(same_bits(chained.at(block + name).data, parts.at(block + name).data)) << block << name;
    }
    EXPECT_TRUE(same_bits(chained.at(block + "hook_attn_in").data, whole.at(block + "hook_attn_in").data)) << block;
    if (!whole.contains(block + "hook_resid_mid")) continue;  // a parallel block: the FFN reads the stream, too
    if (model_.config().altup) continue;                      // the stream before the block is several
    if (find<Mamba2Config>(model_.config().blocks[layer]) != nullptr) continue;  // next to attention
    const Value &pre = whole.at(block + "hook_resid_pre"), &mid = whole.at(block + "hook_resid_mid");
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_NEAR(all[i], static_cast<double>(pre.data[i]) - static_cast<double>(mid.data[i]), bar) << block << i;
    }
  }
}

/// The backward of tapped attention runs step by step, and a tapped input of the FFN is a copy. Both add the same terms
/// in another order.
TEST_P(Backward, TappedAttentionEqualsUntapped) {
  std::vector<std::string> sites = kStrips;
  sites.emplace_back("*.hook_mlp_in");
  Probe probe(model_, sites);
  probe.ask_gradients = true;
  ModelGradients tapped(model_, {.taps = &probe});
  tapped.forward_backward(texts());
  ModelGradients untapped(model_);
  untapped.forward_backward(texts());
  EXPECT_TRUE(same_bits(tapped.logits, untapped.logits));
  const Distance d = distance(tapped.gradients(), untapped.gradients(), 1e-5, 1e-7);
  EXPECT_LE(d.worst, 1) << d.name;
  std::size_t n_attending = 0;
  for (std::size_t i = 0; i < model_.config().n_layers(); ++i) n_attending += heads_of(model_.config(), i) != nullptr;
  EXPECT_GE(probe.gradients.size(), 3 * texts().size() * n_attending);
}

TEST_P(Backward, GradientsOfSegmentsAndMicroBatchesAddUp) {
  ModelGradients together(model_), one_by_one(model_), by_two(model_);
  const std::vector<Ids> all = texts();
  together.forward_backward(all, 0.125f);
  for (const Ids& text : all) one_by_one.forward_backward({text}, 0.125f);
  by_two.forward_backward({all[0], all[1]}, 0.125f);
  by_two.forward_backward({all[2], all[3]}, 0.125f);
  for (const ModelGradients* parts : {&one_by_one, &by_two}) {
    EXPECT_NEAR(parts->cross_entropy, together.cross_entropy, 1e-6 * together.cross_entropy);
    const Distance d = distance(parts->gradients(), together.gradients(), 1e-6, 1e-7);
    EXPECT_LE(d.worst, 1) << d.name;
  }
}

TEST_P(Backward, ATokenChangesNoEarlierLogits) {
  const std::vector<float> logits = logits_of(model_, ids_);
  const std::int64_t vocab_size = model_.config().vocab_size;
  for (std::size_t t = 0; t < ids_.size(); ++t) {
    Ids changed = ids_;
    changed[t] = (changed[t] + 1) % static_cast<std::int32_t>(vocab_size);
    const std::vector<float> after = logits_of(model_, changed);
    const auto before_t = static_cast<std::ptrdiff_t>(t) * vocab_size;
    EXPECT_TRUE(same_bits({logits.begin(), logits.begin() + before_t}, {after.begin(), after.begin() + before_t})) << t;
    EXPECT_FALSE(same_bits({logits.begin() + before_t, logits.begin() + before_t + vocab_size},
                           {after.begin() + before_t, after.begin() + before_t + vocab_size}))
        << t;
  }
}

/// The gradient of the loss at position t with respect to later embeddings is exactly 0, with and without taps.
TEST_P(Backward, NoGradientFlowsToLaterTokens) {
  for (const char* strips : {"", "*.hook_pattern"}) {
    for (std::size_t t = 0; t + 1 < ids_.size(); t += 3) {
      Probe probe(model_, {"hook_embed", strips});
      probe.ask_gradients = true;
      ModelGradients model_gradients(model_, {.taps = &probe});
      std::vector<float> weights(ids_.size(), 0.0f);
      weights[t] = 1;
      model_gradients.forward_backward({ids_}, 1, weights);
      const Value& embed = probe.gradients.at("hook_embed");
      const auto d = static_cast<std::size_t>(embed.shape[1]);
      for (std::size_t i = 0; i < embed.data.size(); ++i) {
        if (i / d <= t) continue;
        ASSERT_EQ(embed.data[i], 0) << "of position " << t << " by " << i / d;
      }
      const auto row = embed.data.begin() + static_cast<std::ptrdiff_t>(t * d);
      EXPECT_GT(largest({row, row + static_cast<std::ptrdiff_t>(d)}), 0) << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Backward, testing::ValuesIn(golden_cases()),
                         [](const auto& param_info) { return param_info.param; });

/// The gradient of a tied weight is the sum of the gradients of the embedding and the head with the same weights
/// untied.
TEST(BackwardWithATiedHead, AddsBothGradients) {
  int tied_heads = 0;
  for (const std::string& golden : golden_cases()) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    const Model& model = *checkpoint.model;
    if (!model.config().head.tied) continue;
    SCOPED_TRACE(golden);
    ++tied_heads;
    ModelConfig config = model.config();
    ModelParams params = model.params();
    config.head.tied = false;
    params.unembed.weight = params.embed;
    const Model untied(config, params, {checkpoint.model});
    const Ids ids = short_ids(golden);
    Values parts = gradients_of(untied, ids), tied = gradients_of(model, ids);
    Value& embed = parts.at("embed.weight");
    const Value& head = parts.at("unembed.weight");
    EXPECT_GT(largest(embed.data), 0);
    EXPECT_GT(largest(head.data), 0);
    for (std::size_t i = 0; i < embed.data.size(); ++i) embed.data[i] += head.data[i];
    const Distance d = distance({{"sum", embed}}, {{"sum", tied.at("embed.weight")}}, 1e-6, 0);
    EXPECT_LE(d.worst, 1) << d.name;
    for (const char* name : {"embed.weight", "unembed.weight"}) parts.erase(name), tied.erase(name);
    EXPECT_EQ(first_difference(parts, tied), "");
  }
  EXPECT_GT(tied_heads, 5);
}

/// Models large enough that the work of every op is divided among threads, and a text of many tiles.
struct Wide {
  std::string golden;
  Json changes;
};

void PrintTo(const Wide& wide, std::ostream* out) { *out << wide.golden; }

class WideBackward : public testing::TestWithParam<Wide> {
 protected:
  WideBackward() {
    Json config = preset_or_config(goldens() + "/" + GetParam().golden + "/config.json");
    config.update(GetParam().changes);
    config["initializer_range"] = 0.1;
    ThreadPool pool(2);
    init_checkpoint(config, "config", folder_ / "model", DType::f32, 7, pool);
    checkpoint_ = load_checkpoint(folder_ / "model");
  }
  Values learned(const BackwardOptions& o) const {
    ModelGradients model_gradients(*checkpoint_.model, o);
    model_gradients.forward_backward({some_ids(*checkpoint_.model, 90, 1), some_ids(*checkpoint_.model, 37, 2)}, 0.01f);
    return model_gradients.gradients();
  }

  const ScratchFolder folder_;
  Checkpoint checkpoint_;
};

TEST_P(WideBackward, BitsDoNotDependOnThreadsRecomputationOrInstructions) {
  const Values alone = learned({});
  EXPECT_EQ(first_difference(alone, learned({.threads = 2})), "");
  EXPECT_EQ(first_difference(alone, learned({.threads = 3, .recompute = true})), "");
  for (const Isa isa : available_isas()) {
    EXPECT_EQ(first_difference(alone, learned({.kernels = &kernels_for(isa), .threads = 2})), "") << name_of(isa);
  }
}

TEST_P(WideBackward, TappedAttentionEqualsUntapped) {
  Probe one(*checkpoint_.model, kStrips), two(*checkpoint_.model, kStrips);
  const Values tapped = learned({.taps = &one});
  EXPECT_EQ(first_difference(tapped, learned({.threads = 3, .taps = &two})), "");
  const Distance d = distance(tapped, learned({}), 1e-5, 1e-7);
  EXPECT_LE(d.worst, 1) << d.name;
}

const Json kWideQwen = {{"hidden_size", 256},           {"intermediate_size", 256},
                        {"moe_intermediate_size", 128}, {"shared_expert_intermediate_size", 256},
                        {"num_attention_heads", 8},     {"num_key_value_heads", 4},
                        {"vocab_size", 1500},           {"max_position_embeddings", 256}};
const Json kWideGemma = {
    {"hidden_size", 256}, {"intermediate_size", 512}, {"num_attention_heads", 8}, {"num_key_value_heads", 2},
    {"head_dim", 32},     {"vocab_size", 1500},       {"sliding_window", 16},     {"max_position_embeddings", 256}};
const Json kWideGpt = {{"n_embd", 256}, {"n_head", 8}, {"n_positions", 256}, {"n_inner", 512}, {"vocab_size", 1500}};

const Json kWideDelta = {{"hidden_size", 256},          {"intermediate_size", 256},      {"linear_num_key_heads", 4},
                         {"linear_num_value_heads", 8}, {"linear_key_head_dim", 32},     {"linear_value_head_dim", 48},
                         {"num_attention_heads", 8},    {"num_key_value_heads", 4},      {"head_dim", 32},
                         {"vocab_size", 1500},          {"max_position_embeddings", 256}};
const Json kWideMamba = {{"hidden_size", 128}, {"state_size", 16}, {"time_step_rank", 8}, {"vocab_size", 1500}};
const Json kWideMamba2 = {{"hidden_size", 128}, {"num_heads", 8},     {"head_dim", 32}, {"n_groups", 2},
                          {"state_size", 40},   {"vocab_size", 1500}, {"expand", 2}};

INSTANTIATE_TEST_SUITE_P(Families, WideBackward,
                         testing::Values(Wide{"gemma2", kWideGemma}, Wide{"gpt2", kWideGpt},
                                         Wide{"qwen2_moe", kWideQwen}, Wide{"qwen3_5", kWideDelta},
                                         Wide{"mamba", kWideMamba}, Wide{"mamba2", kWideMamba2}),
                         [](const auto& param_info) { return param_info.param.golden; });

/// A vocabulary so large that the head processes the rows of a text in groups.
TEST(BackwardInGroups, EqualsBackwardAtOnce) {
  const ScratchFolder folder;
  Json config = preset_or_config(goldens() + "/llama_mha/config.json");
  config.update(Json{{"vocab_size", 200'000}, {"initializer_range", 0.3}, {"max_position_embeddings", 128}});
  ThreadPool pool(2);
  init_checkpoint(config, "config", folder / "model", DType::f32, 7, pool);
  const Checkpoint checkpoint = load_checkpoint(folder / "model");
  const Ids ids = some_ids(*checkpoint.model, 100, 1);
  const auto learned = [&](const BackwardOptions& o) {
    ModelGradients model_gradients(*checkpoint.model, o);
    model_gradients.forward_backward({ids}, 0.01f);
    return model_gradients.gradients();
  };
  const Values grouped = learned({.threads = 2, .label_smoothing = 0.1f, .z_loss = 1e-2f});
  Probe probe(*checkpoint.model, {"hook_loss"});  // a tapped loss is computed for all rows at once
  const Values at_once = learned({.threads = 2, .taps = &probe, .label_smoothing = 0.1f, .z_loss = 1e-2f});
  const Distance d = distance(grouped, at_once, 1e-6, 1e-7);
  EXPECT_LE(d.worst, 1) << d.name;
}

}  // namespace
}  // namespace vitrine::test
