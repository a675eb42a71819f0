// GGUF files of models whose mixers have a state: the same model comes back, under the names that other programs read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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

Json qwen3_5(const char* type, const char* name) {
  return {{"model_type", type},
          {"architectures", {name}},
          {"hidden_size", 36},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"linear_num_key_heads", 2},
          {"linear_num_value_heads", 6},
          {"linear_key_head_dim", 10},
          {"linear_value_head_dim", 10},
          {"layer_types", {"linear_attention", "full_attention", "linear_attention"}},
          {"max_position_embeddings", 64}};
}

Json dense_qwen3_5() {
  Json config = qwen3_5("qwen3_5_text", "Qwen3_5ForCausalLM");
  config["intermediate_size"] = 24;
  return config;
}

Json sparse_qwen3_5() {
  Json config = qwen3_5("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM");
  config.update({{"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 24},
                 {"shared_expert_intermediate_size", 28}});
  return config;
}

Json kimi_linear() {
  return {{"model_type", "kimi_linear"},
          {"architectures", {"KimiLinearForCausalLM"}},
          {"hidden_size", 36},
          {"intermediate_size", 40},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 3},
          {"num_key_value_heads", 3},
          {"linear_num_heads", 3},
          {"linear_head_dim", 10},
          {"linear_conv_kernel_dim", 3},
          {"layer_types", {"linear_attention", "linear_attention", "full_attention"}},
          {"mlp_layer_types", {"dense", "sparse", "sparse"}},
          {"kv_lora_rank", 14},
          {"qk_nope_head_dim", 10},
          {"qk_rope_head_dim", 6},
          {"v_head_dim", 8},
          {"num_experts", 4},
          {"num_experts_per_token", 2},
          {"moe_intermediate_size", 24},
          {"num_shared_experts", 1},
          {"routed_scaling_factor", 1.5},
          {"model_max_length", 64}};
}

/// Attention in the middle one of three layers, between Mamba of the keys' usual names.
Json hybrid(const char* type, const char* name) {
  return {{"model_type", type},           {"architectures", {name}}, {"hidden_size", 36},
          {"intermediate_size", 40},      {"num_hidden_layers", 3},  {"num_attention_heads", 6},
          {"num_key_value_heads", 2},     {"mamba_d_conv", 3},       {"mamba_d_state", 5},
          {"max_position_embeddings", 64}};
}

Json jamba() {
  Json config = hybrid("jamba", "JambaForCausalLM");
  config.update({{"attn_layer_period", 3},
                 {"attn_layer_offset", 1},
                 {"expert_layer_period", 2},
                 {"expert_layer_offset", 1},
                 {"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"mamba_dt_rank", 3}});
  return config;
}

Json jamba_without_experts() {
  Json config = jamba();
  config["num_experts"] = 1;
  return config;
}

Json with_mamba2(Json config) {
  config.update({{"mamba_n_heads", 6}, {"mamba_d_head", 12}, {"mamba_n_groups", 2}});
  return config;
}

Json falcon_h1() {
  Json config = with_mamba2(hybrid("falcon_h1", "FalconH1ForCausalLM"));
  config.update({{"mamba_d_ssm", 72},
                 {"head_dim", 8},
                 {"attention_in_multiplier", 0.9},
                 {"attention_out_multiplier", 1.1},
                 {"ssm_in_multiplier", 1.2},
                 {"ssm_out_multiplier", 0.7},
                 {"mlp_multipliers", {0.8, 1.3}},
                 {"ssm_multipliers", {0.5, 0.6, 0.7, 0.8, 0.9}},
                 {"key_multiplier", 0.55},
                 {"lm_head_multiplier", 0.3},
                 {"embedding_multiplier", 2.5}});
  return config;
}

Json tied_falcon_h1() {
  Json config = falcon_h1();
  config["tie_word_embeddings"] = true;
  return config;
}

Json granite_hybrid() {
  Json config = with_mamba2(hybrid("granitemoehybrid", "GraniteMoeHybridForCausalLM"));
  config.update({{"layer_types", {"mamba", "attention", "mamba"}},
                 {"num_local_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"shared_intermediate_size", 28},
                 {"attention_multiplier", 0.2},
                 {"embedding_multiplier", 3.0},
                 {"residual_multiplier", 0.6},
                 {"logits_scaling", 2.5}});
  return config;
}

Json dense_granite_hybrid() {
  Json config = granite_hybrid();
  config.update({{"num_local_experts", 0}, {"num_experts_per_tok", 0}});
  return config;
}

/// Written as Granite's older architectures.
Json granite_without_states() {
  Json config = dense_granite_hybrid();
  config.update({{"layer_types", {"attention", "attention", "attention"}}, {"position_embedding_type", "rope"}});
  return config;
}

Json bamba() {
  Json config = with_mamba2(hybrid("bamba", "BambaForCausalLM"));
  config.update({{"attn_layer_indices", {1}}, {"hidden_size", 48}, {"mamba_d_head", 16}});
  return config;
}

Json nemotron_h() {
  return {{"model_type", "nemotron_h"},
          {"architectures", {"NemotronHForCausalLM"}},
          {"hidden_size", 36},
          {"intermediate_size", 40},
          {"hybrid_override_pattern", "M-*-M"},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 2},
          {"head_dim", 14},
          {"mamba_num_heads", 6},
          {"mamba_head_dim", 10},
          {"n_groups", 3},
          {"ssm_state_size", 9},
          {"conv_kernel", 3},
          {"max_position_embeddings", 64}};
}

Json sparse_nemotron_h() {
  Json config = nemotron_h();
  config.update({{"hybrid_override_pattern", "ME*EM"},
                 {"n_routed_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 24},
                 {"moe_shared_expert_intermediate_size", 28},
                 {"moe_latent_size", 20},
                 {"routed_scaling_factor", 1.7}});
  return config;
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
                  {"blk.0.attn_qkv.weight", "blk.0.attn_gate.weight", "blk.0.ssm_ba.weight", "blk.0.ssm_a"}},
        StateCase{"Qwen35", dense_qwen3_5, {"blk.0.attn_qkv.weight", "blk.0.ssm_alpha.weight", "blk.0.ssm_dt.bias"}},
        StateCase{"Qwen35Moe", sparse_qwen3_5, {"blk.0.ssm_beta.weight", "blk.0.ffn_gate_inp_shexp.weight"}},
        StateCase{
            "KimiLinear",
            kimi_linear,
            {"blk.0.ssm_conv1d_q.weight", "blk.0.ssm_f_a.weight", "blk.2.attn_k_b.weight", "blk.2.attn_q.weight"}},
        StateCase{"Jamba", jamba, {"blk.0.ssm_dt_norm.weight", "blk.1.ffn_gate_exps.weight", "blk.1.attn_q.weight"}},
        StateCase{"JambaDense", jamba_without_experts, {"blk.1.ffn_gate.weight"}},
        StateCase{"FalconH1", falcon_h1, {"blk.0.ssm_in.weight", "blk.0.attn_q.weight", "blk.0.ffn_norm"}},
        StateCase{"FalconH1Tied", tied_falcon_h1, {"output.weight", "token_embd.weight"}},
        StateCase{"GraniteHybrid", granite_hybrid, {"blk.0.ssm_norm.weight", "blk.1.ffn_gate_shexp.weight"}},
        StateCase{"GraniteHybridDense", dense_granite_hybrid, {"blk.0.ssm_d", "blk.1.ffn_gate.weight"}},
        StateCase{"GraniteWithoutStates", granite_without_states, {"blk.0.attn_q.weight"}},
        StateCase{"Bamba", bamba, {"blk.0.ssm_in.weight", "blk.1.attn_q.weight"}},
        StateCase{"NemotronH", nemotron_h, {"blk.0.ssm_in.weight", "blk.1.ffn_up.weight", "blk.2.attn_q.weight"}},
        StateCase{"NemotronHMoe",
                  sparse_nemotron_h,
                  {"blk.1.attn_norm.weight", "blk.1.ffn_latent_down.weight", "blk.4.ssm_out.weight"}}),
    [](const auto& param) { return param.param.name; });

/// In a mix, more bits go to some of the layers that have attention, counted among themselves, and to some
/// feed-forwards.
TEST(GgufStates, MixesTypesAsLlamaCppDoes) {
  const TempFolder folder;
  Json config = dense_lfm2();
  config.update(
      {{"hidden_size", 256}, {"intermediate_size", 256}, {"num_hidden_layers", 8}, {"num_attention_heads", 4}});
  config["layer_types"] = Json::array();
  for (int i = 0; i < 8; ++i) config["layer_types"].push_back(i == 2 || i == 5 ? "full_attention" : "conv");
  through_gguf(fresh(folder / "model", config), DType::q4_k, folder / "model.gguf");
  const GgufModelFile file = open_gguf(MappedFile::open(folder / "model.gguf"));
  const auto type = [&](const std::string& name) { return file.tensors.all.at(name).type; };
  EXPECT_EQ(type("blk.2.attn_v.weight"), DType::q4_k);
  EXPECT_EQ(type("blk.5.attn_v.weight"), DType::q6_k);
  EXPECT_EQ(type("blk.0.shortconv.in_proj.weight"), DType::q4_k);
  EXPECT_EQ(type("blk.0.shortconv.conv.weight"), DType::f32);
  EXPECT_EQ(type("token_embd.weight"), DType::q6_k);
  for (int i = 0; i < 8; ++i) {
    const bool has_more = i == 0 || i == 3 || i == 6 || i == 7;
    EXPECT_EQ(type("blk." + std::to_string(i) + ".ffn_down.weight"), has_more ? DType::q6_k : DType::q4_k) << i;
  }
}

/// Quantized files run, and the parts in which they read a text change no bit.
TEST_P(GgufStates, RunsQuantized) {
  const TempFolder folder;
  Json config = GetParam().config();
  config["hidden_size"] = 96;  // whole blocks
  if (config.contains("mamba_d_head") && !config.contains("mamba_d_ssm")) config["mamba_d_head"] = 32;
  if (config.contains("num_heads")) config["head_dim"] = 48;
  const Checkpoint gguf = through_gguf(fresh(folder / "model", config), DType::q8_0, folder / "model.gguf");
  const GgufModelFile file = open_gguf(MappedFile::open(folder / "model.gguf"));
  EXPECT_TRUE(std::ranges::any_of(file.tensors.all, [](const auto& each) { return each.second.type == DType::q8_0; }));
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 24; ++i) ids.push_back((i * 5 + 1) % kVocab);
  const std::vector<float> whole = logits_of(*gguf.model, ids);
  EXPECT_TRUE(std::ranges::all_of(whole, [](float x) { return std::isfinite(x); }));
  EXPECT_TRUE(same_bits(chunked_logits_of(*gguf.model, ids, 5), whole));
  EXPECT_TRUE(same_bits(chunked_logits_of(*gguf.model, ids, 1), whole));
}

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
  EXPECT_NE(message("bias", mamba(), {{"use_bias", true}}).find("mixer_bias"), std::string::npos);
  EXPECT_NE(message("limits", mamba2(), {{"time_step_limit", {0.1, 0.5}}}).find("step"), std::string::npos);
  EXPECT_NE(message("order", falcon_h1(), {{"mamba_rms_norm", true}}).find("before"), std::string::npos);
  EXPECT_NE(message("kinds", sparse_nemotron_h(), {{"hybrid_override_pattern", "ME-*"}}).find("dense layers"),
            std::string::npos);
  EXPECT_NE(message("heads", kimi_linear(), {{"linear_num_heads", 2}}).find("heads of delta nets"), std::string::npos);
  EXPECT_NE(message("positions", granite_hybrid(), {{"position_embedding_type", "rope"}}).find("attention.rope"),
            std::string::npos);
  EXPECT_NE(message("sizes", dense_qwen3_5(), {{"linear_value_head_dim", 12}}).find("values"), std::string::npos);
  EXPECT_NE(message("factor", sparse_lfm2(), {{"routed_scaling_factor", 2.0}}).find("factor"), std::string::npos);
}

}  // namespace
}  // namespace vitrine::test
