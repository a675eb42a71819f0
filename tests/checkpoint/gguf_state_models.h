// Models of the architectures of GGUF whose mixers have a state, with random weights.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/gguf_support.h"

namespace vitrine::test {

inline constexpr int kVocab = 41;

inline Checkpoint fresh(const std::string& folder, Json config) {
  config.update({{"vocab_size", kVocab}, {"initializer_range", 0.2}});
  ThreadPool pool(2);
  init_checkpoint(config, "config", folder, DType::f32, 11, pool);
  return load_checkpoint(folder);
}

inline Json mamba() {
  return {{"model_type", "mamba"}, {"architectures", {"MambaForCausalLM"}},
          {"hidden_size", 24},     {"num_hidden_layers", 2},
          {"state_size", 5},       {"time_step_rank", 3},
          {"conv_kernel", 3}};
}

inline Json mamba2() {
  return {{"model_type", "mamba2"}, {"architectures", {"Mamba2ForCausalLM"}},
          {"hidden_size", 24},      {"num_hidden_layers", 2},
          {"state_size", 7},        {"num_heads", 4},
          {"head_dim", 12},         {"n_groups", 2},
          {"conv_kernel", 3}};
}

inline Json lfm2(const char* type, const char* name) {
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

inline Json dense_lfm2() {
  Json config = lfm2("lfm2", "Lfm2ForCausalLM");
  config["block_auto_adjust_ff_dim"] = false;
  return config;
}

inline Json sparse_lfm2() {
  Json config = lfm2("lfm2_moe", "Lfm2MoeForCausalLM");
  config.update(
      {{"num_experts", 6}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}, {"num_dense_layers", 1}});
  return config;
}

inline Json qwen3_next() {
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

inline Json qwen3_5(const char* type, const char* name) {
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

inline Json dense_qwen3_5() {
  Json config = qwen3_5("qwen3_5_text", "Qwen3_5ForCausalLM");
  config["intermediate_size"] = 24;
  return config;
}

inline Json sparse_qwen3_5() {
  Json config = qwen3_5("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM");
  config.update({{"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 24},
                 {"shared_expert_intermediate_size", 28}});
  return config;
}

inline Json kimi_linear() {
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
inline Json hybrid(const char* type, const char* name) {
  return {{"model_type", type},           {"architectures", {name}}, {"hidden_size", 36},
          {"intermediate_size", 40},      {"num_hidden_layers", 3},  {"num_attention_heads", 6},
          {"num_key_value_heads", 2},     {"mamba_d_conv", 3},       {"mamba_d_state", 5},
          {"max_position_embeddings", 64}};
}

inline Json jamba() {
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

inline Json jamba_without_experts() {
  Json config = jamba();
  config["num_experts"] = 1;
  return config;
}

inline Json with_mamba2(Json config) {
  config.update({{"mamba_n_heads", 6}, {"mamba_d_head", 12}, {"mamba_n_groups", 2}});
  return config;
}

inline Json falcon_h1() {
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

inline Json tied_falcon_h1() {
  Json config = falcon_h1();
  config["tie_word_embeddings"] = true;
  return config;
}

inline Json granite_hybrid() {
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

inline Json dense_granite_hybrid() {
  Json config = granite_hybrid();
  config.update({{"num_local_experts", 0}, {"num_experts_per_tok", 0}});
  return config;
}

/// Written as Granite's older architectures.
inline Json granite_without_states() {
  Json config = dense_granite_hybrid();
  config.update({{"layer_types", {"attention", "attention", "attention"}}, {"position_embedding_type", "rope"}});
  return config;
}

inline Json bamba() {
  Json config = with_mamba2(hybrid("bamba", "BambaForCausalLM"));
  config.update({{"attn_layer_indices", {1}}, {"hidden_size", 48}, {"mamba_d_head", 16}});
  return config;
}

inline Json nemotron_h() {
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

inline Json sparse_nemotron_h() {
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

inline const std::vector<StateCase>& state_cases() {
  static const std::vector<StateCase> all = {
      StateCase{"Mamba", mamba, {"blk.0.ssm_in.weight", "blk.0.ssm_conv1d.bias", "blk.0.ssm_a", "blk.0.ssm_dt.bias"}},
      StateCase{"Mamba2", mamba2, {"blk.0.ssm_norm.weight", "blk.0.ssm_d", "blk.0.ssm_dt.bias"}},
      StateCase{"Lfm2", dense_lfm2, {"token_embd_norm.weight", "blk.0.shortconv.conv.weight"}},
      StateCase{"Lfm2Moe", sparse_lfm2, {"blk.1.exp_probs_b.bias", "blk.0.shortconv.in_proj.weight"}},
      StateCase{"Qwen3Next",
                qwen3_next,
                {"blk.0.attn_qkv.weight", "blk.0.attn_gate.weight", "blk.0.ssm_ba.weight", "blk.0.ssm_a"}},
      StateCase{"Qwen35", dense_qwen3_5, {"blk.0.attn_qkv.weight", "blk.0.ssm_alpha.weight", "blk.0.ssm_dt.bias"}},
      StateCase{"Qwen35Moe", sparse_qwen3_5, {"blk.0.ssm_beta.weight", "blk.0.ffn_gate_inp_shexp.weight"}},
      StateCase{"KimiLinear",
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
                {"blk.1.attn_norm.weight", "blk.1.ffn_latent_down.weight", "blk.4.ssm_out.weight"}}};
  return all;
}

}  // namespace vitrine::test
