// Families with states: checkpoints that transformers has written, with logits and gradients in float64, and what their
// configs may say.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "checkpoint/gradients_file.h"
#include "checkpoint/hostile_folder.h"
#include "checkpoint/hugging_face/config_json.h"
#include "support/backward.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

class StateFamily : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = outside_data("states/" + GetParam());
    if (folder_.empty()) GTEST_SKIP() << "no data";
  }
  std::string folder_;
};

TEST_P(StateFamily, LogitsAndGradientsEqualTransformersInFloat64) {
  const Checkpoint checkpoint = load_checkpoint(folder_);
  Values expected = tensors_of(folder_ + "/expected.safetensors");
  Ids ids;
  for (const float id : expected.at("ids").data) ids.push_back(std::bit_cast<std::int32_t>(id));  // stored as integers
  const std::vector<float>& logits = expected.at("logits").data;
  float largest = 0;
  for (const float x : logits) largest = std::max(largest, std::abs(x));
  const std::vector<float> ours = logits_of(*checkpoint.model, ids, {});
  ASSERT_EQ(ours.size(), logits.size());
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(ours[i]) - static_cast<double>(logits[i])));
  }
  EXPECT_LE(worst / (1 + static_cast<double>(largest)), 3e-6);  // PyTorch's own float32 error is up to 2.2e-6

  ThreadPool pool(2);
  const TempFolder temporary;
  ModelGradients gradients(*checkpoint.model, {.threads = 2});
  gradients.forward_backward({ids}, 1.0f / static_cast<float>(ids.size() - 1));
  write_gradients(temporary / "g.safetensors", checkpoint, gradients.raw(), pool);
  const Values written = tensors_of(temporary / "g.safetensors");
  int compared = 0;
  for (const auto& [name, value] : expected) {
    constexpr std::string_view kPrefix = "gradient.";
    if (!name.starts_with(kPrefix)) continue;
    ++compared;
    const std::string own = name.substr(kPrefix.size());
    ASSERT_TRUE(written.contains(own)) << own;
    const Value& other = written.at(own);
    ASSERT_EQ(other.data.size(), value.data.size()) << own;
    double most = 0, difference = 0;
    for (std::size_t i = 0; i < value.data.size(); ++i) {
      most = std::max(most, std::abs(static_cast<double>(value.data[i])));
      difference =
          std::max(difference, std::abs(static_cast<double>(value.data[i]) - static_cast<double>(other.data[i])));
    }
    EXPECT_LE(difference, 5e-4 * most) << own;
  }
  EXPECT_GT(compared, 10);
}

INSTANTIATE_TEST_SUITE_P(Each, StateFamily,
                         testing::Values("bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba",
                                         "kimi_linear", "lfm2", "lfm2_moe", "mamba", "mamba2", "nemotron_h",
                                         "olmo_hybrid", "qwen3_5_text", "qwen3_next"),
                         [](const auto& param_info) { return param_info.param; });

std::string refusal_with(const std::string& golden, const std::string& patch) {
  const HostileFolder folder(golden);
  folder.edit_json([&](Json& config) { config.merge_patch(Json::parse(patch)); });
  return refusal(folder.path());
}

TEST(StateConfigs, AreRefusedByName) {
  expect_all_in(refusal_with("mamba2", R"({"time_step_limit": [0.5, 0.1]})"), {"time_step_limit"});
  expect_all_in(refusal_with("mamba2", R"({"time_step_limit": [0.0]})"), {"config.json]", "time_step_limit"});
  expect_all_in(refusal_with("mamba2", R"({"n_groups": 7})"), {"num_heads", "n_groups (7)"});
  expect_all_in(refusal_with("mamba2", R"({"conv_kernel": 0})"), {"config.json]", "conv_kernel"});
  expect_all_in(refusal_with("mamba", R"({"hidden_act": "mish"})"), {"config.json]", "hidden_act", "mish"});
  expect_all_in(refusal_with("lfm2", R"({"layer_types": ["conv", "mystery", "conv"]})"), {"layer_types"});
  expect_all_in(refusal_with("qwen3_next", R"({"linear_num_value_heads": 7})"),
                {"linear_num_value_heads", "linear_num_key_heads (3)", "7"});
  expect_all_in(refusal_with("qwen3_next", R"({"num_key_value_heads": 2})"),
                {"num_attention_heads", "num_key_value_heads (2)", "3"});
  expect_all_in(refusal_with("bamba", R"({"partial_rotary_factor": 1.0})"), {"partial_rotary_factor", "0.5"});
  expect_all_in(refusal_with("mamba", R"({"layer_norm_epsilon": -1})"), {"layer_norm_epsilon", "-1"});
  expect_all_in(refusal_with("falcon_mamba", R"({"mixer_rms_eps": -1})"), {"mixer_rms_eps", "-1"});
  expect_all_in(refusal_with("jamba", R"({"expert_layer_offset": 5})"), {"expert_layer_offset", "expert_layer_period"});
  expect_all_in(refusal_with("jamba", R"({"attn_layer_offset": 3})"), {"attn_layer_offset", "attn_layer_period"});
  expect_all_in(refusal_with("falcon_h1", R"({"key_multiplier": 0})"), {"config.json]", "key_multiplier", "0"});
  expect_all_in(refusal_with("falcon_h1", R"({"mamba_d_ssm": 31})"), {"mamba_d_ssm (31)", "30"});
  expect_all_in(refusal_with("falcon_h1", R"({"ssm_multipliers": [1, 2]})"), {"config.json]", "ssm_multipliers", "5"});
  expect_all_in(refusal_with("jamba", R"({"hidden_size": 21})"), {"hidden_size", "num_attention_heads (5)", "21"});
  expect_all_in(refusal_with("jamba", R"({"num_experts_per_tok": 15})"), {"num_experts_per_tok", "num_experts (4)"});
  expect_all_in(refusal_with("bamba", R"({"num_attention_heads": 4, "num_key_value_heads": 1})"),
                {"num_attention_heads", "even", "got 3"});
  expect_all_in(refusal_with("falcon_h1", R"({"head_dim": 7})"), {"head_dim", "even", "7"});
  expect_all_in(refusal_with("kimi_linear", R"({"qk_rope_head_dim": 5})"), {"qk_rope_head_dim", "even", "5"});
  expect_all_in(refusal_with("kimi_linear", R"({"num_expert_group": 3})"), {"num_experts", "num_expert_group (3)"});
  expect_all_in(refusal_with("nemotron_h", R"({"n_group": 4})"), {"n_routed_experts", "n_group (4)", "6"});
  expect_all_in(refusal_with("nemotron_h", R"({"topk_group": 8})"), {"topk_group", "n_group", "8"});
  expect_all_in(refusal_with("nemotron_h", R"({"time_step_min": -1})"), {"time_step_min", "-1"});
  expect_all_in(refusal_with("lfm2", R"({"block_ffn_dim_multiplier": 1e30})"), {"block_ffn_dim_multiplier"});
  expect_all_in(refusal_with("falcon_h1", R"({"mystery_key": 3})"), {"config.json]", "mystery_key"});
}

TEST(StateConfigs, InfinityMayBeAWord) {
  const HostileFolder folder("mamba2");
  std::string text = read_file(folder.path() + "/config.json");
  Json config = Json::parse(text);
  config["time_step_limit"] = {0.0, "@"};
  text = config.dump();
  text.replace(text.find("\"@\""), 3, "Infinity");
  write_file(folder.path() + "/config.json", text);
  const Checkpoint checkpoint = load_checkpoint(folder.path());
  const auto* const mamba = find<Mamba2Config>(checkpoint.model->config().blocks[0]);
  ASSERT_NE(mamba, nullptr);
  EXPECT_TRUE(std::isinf(mamba->limits.most));
}

ModelConfig config_with(const std::string& golden, const std::string& patch) {
  const HostileFolder folder(golden);
  folder.edit_json([&](Json& config) { config.merge_patch(Json::parse(patch)); });
  return load_checkpoint(folder.path()).model->config();
}

TEST(StateConfigs, IntermediateSizeOverrulesExpand) {  // Falcon Mamba's published config says expand 16 and means 2
  for (const char* golden : {"mamba", "falcon_mamba"}) {
    EXPECT_EQ(config_with(golden, R"({"expand": 16})"), golden_checkpoint(golden).model->config());
  }
  expect_all_in(refusal_with("mamba", R"({"intermediate_size": 39})"), {"mixer.in_proj.weight", "[78, 20]"});
}

TEST(StateConfigs, OlmoHybridHasNoPositionsIfThetaIsNull) {
  const HostileFolder folder("olmo_hybrid");
  const auto rotates_with = [&](const Json& rope) {
    folder.edit_json([&](Json& config) { config["rope_parameters"] = rope; });
    return find<AttentionConfig>(load_checkpoint(folder.path()).model->config().blocks[2])->rope.has_value();
  };
  EXPECT_TRUE(rotates_with(nullptr));
  EXPECT_TRUE(rotates_with({{"rope_type", "default"}}));
  EXPECT_FALSE(rotates_with({{"rope_type", "default"}, {"rope_theta", nullptr}}));
}

TEST(StateConfigs, AConvolutionOfAnotherShapeIsNamed) {
  const HostileFolder folder("olmo_hybrid");
  folder.edit_header([](Json& header) {
    Json& tensor = header["model.layers.0.linear_attn.k_conv1d.weight"];
    tensor["shape"] = {tensor["shape"][2], 1, tensor["shape"][0]};
  });
  expect_all_in(refusal(folder.path()), {"linear_attn.", "_conv1d.weight", "expected shape"});
}

TEST(StateConfigs, TheActivationIsThatOfTheConvolution) {
  const ModelConfig jamba = config_with("jamba", "{}"), bamba = config_with("bamba", "{}");
  const ModelConfig olmo = config_with("olmo_hybrid", "{}");
  EXPECT_EQ(find<MambaConfig>(jamba.blocks[0])->activation, Activation::gelu_erf);
  EXPECT_EQ(find<Mamba2Config>(bamba.blocks[0])->activation, Activation::gelu_tanh);
  EXPECT_EQ(find<DeltaNetConfig>(olmo.blocks[0])->activation, Activation::gelu_erf);
}

TEST(StateConfigs, NemotronClampsStepsFromBelowAlone) {
  const auto limits_with = [](const std::string& patch) {
    return find<Mamba2Config>(config_with("nemotron_h", patch).blocks[0])->limits;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(limits_with("{}"), (StepLimits{0.001f, infinity}));
  EXPECT_EQ(limits_with(R"({"time_step_limit": [0.25, 0.5], "time_step_min": 0.125})"), (StepLimits{0.125f, infinity}));
  EXPECT_EQ(limits_with(R"({"mamba_dt_min": 0.5})"), (StepLimits{0.5f, infinity}));
}

TEST(StateConfigs, NemotronHasOldAndUnusedKeys) {
  const ModelConfig config = golden_checkpoint("nemotron_h").model->config();
  EXPECT_EQ(config_with("nemotron_h", R"({"mamba_d_conv": 3, "conv_kernel": 4, "mamba_n_groups": 3, "n_groups": 9,
      "mamba_conv_bias": true, "use_conv_bias": false, "mamba_expand": 3, "norm_eps": 0.5, "rope_theta": 10,
      "partial_rotary_factor": 0.5, "head_dim": null, "attention_head_dim": 6, "tie_word_embeddings": true,
      "layers_block_type": null, "hybrid_override_pattern": "M-*EM"})"),
            config);
  EXPECT_EQ(config_with("nemotron_h", R"({"num_nextn_predict_layers": 1})"), config);  // without num_hidden_layers
  EXPECT_EQ(config_with("nemotron_h", R"({"num_nextn_predict_layers": 2, "num_hidden_layers": 5})"), config);
}

TEST(StateConfigs, ChosenExpertsOfNemotronHaveNoBiases) {
  Json config = Json::parse(read_file(goldens() + "/nemotron_h/config.json"));
  config["mlp_bias"] = true;
  const ModelConfig model = read_model_config(family_of(config, "config.json"), config, "config.json");
  const MoeConfig& moe = *find<MoeConfig>(model.blocks[3]);
  EXPECT_FALSE(moe.expert.bias);
  EXPECT_TRUE(moe.shared->bias);
  EXPECT_TRUE(moe.latent_bias);
  EXPECT_TRUE(find<DenseConfig>(model.blocks[1])->bias);
}

TEST(StateConfigs, TiedHeadsAreThoseOfTransformers) {
  const ModelConfig lfm2 = config_with("lfm2", R"({"tie_embedding": true, "tie_word_embeddings": false})");
  EXPECT_TRUE(lfm2.head.tied);
  EXPECT_FALSE(config_with("kimi_linear", R"({"tie_word_embeddings": true})").head.tied);
}

TEST(StateConfigs, ModelsWithoutAttentionHaveNoContextLimit) {
  EXPECT_EQ(golden_checkpoint("mamba").model->config().max_seq_len, kNoContextLimit);
}

}  // namespace
}  // namespace vitrine::test
