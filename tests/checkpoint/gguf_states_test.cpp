// GGUF files of models whose mixers have a state: the same model comes back, under the names that other programs read.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/mapped_file.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/gguf_support.h"

namespace vitrine::test {
namespace {

constexpr int kVocab = 41;

Checkpoint fresh(const std::string& folder, Json config) {
  config.update({{"vocab_size", kVocab}, {"initializer_range", 0.2}});
  ThreadPool pool(2);
  init_checkpoint(config, "config", folder, DType::f32, 11, pool);
  return load_checkpoint(folder);
}

Json mamba() {
  return {{"model_type", "mamba"}, {"architectures", {"MambaForCausalLM"}},
          {"hidden_size", 24},     {"num_hidden_layers", 2},
          {"state_size", 5},       {"time_step_rank", 3},
          {"conv_kernel", 3}};
}

Json mamba2() {
  return {{"model_type", "mamba2"}, {"architectures", {"Mamba2ForCausalLM"}},
          {"hidden_size", 24},      {"num_hidden_layers", 2},
          {"state_size", 7},        {"num_heads", 4},
          {"head_dim", 12},         {"n_groups", 2},
          {"conv_kernel", 3}};
}

Json lfm2(const char* type, const char* name) {
  return {{"model_type", type},
          {"architectures", {name}},
          {"hidden_size", 36},
          {"intermediate_size", 56},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"layer_types", {"conv", "full_attention", "conv"}},
          {"max_position_embeddings", 64},
          {"conv_L_cache", 4}};
}

Json dense_lfm2() {
  Json config = lfm2("lfm2", "Lfm2ForCausalLM");
  config["block_auto_adjust_ff_dim"] = false;
  return config;
}

Json sparse_lfm2() {
  Json config = lfm2("lfm2_moe", "Lfm2MoeForCausalLM");
  config.update(
      {{"num_experts", 6}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}, {"num_dense_layers", 1}});
  return config;
}

Json qwen3_next() {
  return {{"model_type", "qwen3_next"},
          {"architectures", {"Qwen3NextForCausalLM"}},
          {"hidden_size", 36},
          {"intermediate_size", 24},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"linear_num_key_heads", 3},
          {"linear_num_value_heads", 6},
          {"linear_key_head_dim", 10},
          {"linear_value_head_dim", 10},
          {"layer_types", {"linear_attention", "full_attention", "linear_attention"}},
          {"num_experts", 4},
          {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 24},
          {"shared_expert_intermediate_size", 28},
          {"max_position_embeddings", 64}};
}

struct StateCase {
  const char* name;
  Json (*config)();
  std::vector<std::string> tensors;  ///< Of the first layer, among others.
};

class GgufStates : public testing::TestWithParam<StateCase> {};

TEST_P(GgufStates, ComesBack) {
  const TempFolder folder;
  const Checkpoint original = fresh(folder / "model", GetParam().config());
  const std::string path = folder / "model.gguf", again = folder / "again.gguf";
  const Checkpoint gguf = through_gguf(original, DType::f32, path);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 40; ++i) ids.push_back((i * 7 + 3) % kVocab);
  const std::vector<float> expected = logits_of(*original.model, ids), got = logits_of(*gguf.model, ids);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5F * (1 + std::abs(expected[i])));
  const GgufModelFile file = open_gguf(MappedFile::open(path));
  for (const std::string& tensor : GetParam().tensors) EXPECT_TRUE(file.tensors.all.contains(tensor)) << tensor;
  // a file of a file has the same tensors
  const Checkpoint twice = through_gguf(gguf, DType::f32, again);
  EXPECT_TRUE(same_bits(logits_of(*twice.model, ids), got));
  const GgufModelFile other = open_gguf(MappedFile::open(again));
  ASSERT_EQ(other.tensors.all.size(), file.tensors.all.size());
  for (const auto& [name, tensor] : file.tensors.all) {
    const StoredTensor& same = other.tensors.all.at(name);
    EXPECT_EQ(same.shape, tensor.shape) << name;
    EXPECT_TRUE(std::ranges::equal(same.bytes, tensor.bytes)) << name;
  }
}

/// Matrices of mixers are quantized; convolutions and rates are not.
TEST_P(GgufStates, QuantizesMatricesAlone) {
  const TempFolder folder;
  Json config = GetParam().config();
  const Checkpoint original = fresh(folder / "model", config);
  through_gguf(original, DType::f16, folder / "model.gguf");
  const GgufModelFile file = open_gguf(MappedFile::open(folder / "model.gguf"));
  for (const auto& [name, tensor] : file.tensors.all) {
    const bool is_kept = name.find("conv1d") != name.npos || name.find("shortconv.conv.") != name.npos ||
                         name.ends_with(".ssm_a") || name.ends_with("gate_inp.weight");
    const bool is_matrix = tensor.shape.size() > 1 && tensor.shape.back() > 1 && !is_kept;
    EXPECT_EQ(tensor.type == DType::f16, is_matrix && !name.ends_with("norm.weight")) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GgufStates,
    testing::Values(
        StateCase{"Mamba", mamba, {"blk.0.ssm_in.weight", "blk.0.ssm_conv1d.bias", "blk.0.ssm_a", "blk.0.ssm_dt.bias"}},
        StateCase{"Mamba2", mamba2, {"blk.0.ssm_norm.weight", "blk.0.ssm_d", "blk.0.ssm_dt.bias"}},
        StateCase{"Lfm2", dense_lfm2, {"token_embd_norm.weight", "blk.0.shortconv.conv.weight"}},
        StateCase{"Lfm2Moe", sparse_lfm2, {"blk.1.exp_probs_b.bias", "blk.0.shortconv.in_proj.weight"}},
        StateCase{"Qwen3Next",
                  qwen3_next,
                  {"blk.0.attn_qkv.weight", "blk.0.attn_gate.weight", "blk.0.ssm_ba.weight", "blk.0.ssm_a"}}),
    [](const auto& param) { return param.param.name; });

/// What llama.cpp would leave out is refused by name.
TEST(GgufStates, RefusesWhatHasNoPlace) {
  const TempFolder folder;
  ThreadPool pool(2);
  const auto message = [&](const std::string& name, Json config, const Json& changes) {
    config.update(changes);
    const Checkpoint checkpoint = fresh(folder / name, config);
    try {
      write_gguf(folder / (name + ".gguf"), checkpoint, DType::f32, {}, pool);
    } catch (const Unsupported& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message("bias", mamba(), {{"use_bias", true}}).find("the biases of projections"), std::string::npos);
  EXPECT_NE(message("limits", mamba2(), {{"time_step_limit", {0.1, 0.5}}}).find("step"), std::string::npos);
  EXPECT_NE(message("factor", sparse_lfm2(), {{"routed_scaling_factor", 2.0}}).find("factor"), std::string::npos);
}

}  // namespace
}  // namespace vitrine::test
