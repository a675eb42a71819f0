// Families with states: checkpoints that transformers has written, with logits and gradients in float64, and what their
// configs may say.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "checkpoint/gradients_file.h"
#include "checkpoint/hostile_folder.h"
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
  expect_all_in(refusal_with("mamba2", R"({"n_groups": 7})"), {"groups", "7"});
  expect_all_in(refusal_with("mamba2", R"({"conv_kernel": 0})"), {"config.json]", "conv_kernel"});
  expect_all_in(refusal_with("mamba", R"({"hidden_act": "mish"})"), {"config.json]", "mish"});
  expect_all_in(refusal_with("lfm2", R"({"layer_types": ["conv", "mystery", "conv"]})"), {"layer_types"});
  expect_all_in(refusal_with("qwen3_next", R"({"linear_num_value_heads": 7})"), {"7"});
  expect_all_in(refusal_with("qwen3_next", R"({"attention_bias": true})"), {"attention_bias"});
  expect_all_in(refusal_with("falcon_h1", R"({"ssm_multipliers": [1, 2]})"), {"config.json]", "ssm_multipliers", "5"});
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

TEST(StateConfigs, ModelsWithoutAttentionHaveNoContextLimit) {
  EXPECT_EQ(golden_checkpoint("mamba").model->config().max_seq_len, kNoContextLimit);
}

}  // namespace
}  // namespace vitrine::test
