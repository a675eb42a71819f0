// Small models whose layers have states, with random weights.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/init.h"
#include "checkpoint/load.h"

namespace vitrine::test {

/// Delta nets with attention, KDA with latent attention, convolutions with attention, Mamba-2 next to attention, and
/// Mamba of both kinds alone.
inline const std::vector<std::string> kStateModels = {"qwen3_5_text", "kimi_linear", "lfm2",
                                                      "falcon_h1",    "mamba",       "mamba2"};

/// The config.json of such a model, with a context of 1024 tokens where there is one.
inline Json state_model_config(const std::string& name) {
  if (name == "qwen3_5_text") {
    return Json::parse(R"(
      {"attention_bias": false, "head_dim": 16, "hidden_act": "silu", "hidden_size": 36, "intermediate_size": 56,
      "layer_types": ["linear_attention", "linear_attention", "full_attention"], "linear_conv_kernel_dim": 4,
      "linear_key_head_dim": 10, "linear_num_key_heads": 3, "linear_num_value_heads": 6, "linear_value_head_dim":
      14, "max_position_embeddings": 1024, "model_type": "qwen3_5_text", "num_attention_heads": 6,
      "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_parameters":
      {"partial_rotary_factor": 0.25, "rope_theta": 5000.0, "rope_type": "default"}, "tie_word_embeddings": false,
      "vocab_size": 61})");
  }
  if (name == "kimi_linear") {
    return Json::parse(R"(
      {"attention_bias": false, "head_dim": 8, "hidden_act": "silu", "hidden_size": 36, "intermediate_size": 56,
      "kv_lora_rank": 18, "layer_types": ["linear_attention", "linear_attention", "full_attention"],
      "linear_conv_kernel_dim": 3, "linear_head_dim": 10, "linear_num_heads": 5, "mlp_layer_types": ["dense",
      "sparse", "sparse"], "model_max_length": 1024, "model_type": "kimi_linear", "moe_intermediate_size": 24,
      "moe_renormalize": true, "num_attention_heads": 6, "num_expert_group": 1, "num_experts": 4,
      "num_experts_per_token": 2, "num_hidden_layers": 3, "num_key_value_heads": 6, "num_shared_experts": 1,
      "q_lora_rank": null, "qk_head_dim": 18, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-05,
      "routed_scaling_factor": 1.5, "tie_word_embeddings": false, "topk_group": 1, "v_head_dim": 12, "vocab_size":
      61})");
  }
  if (name == "lfm2") {
    return Json::parse(R"(
      {"block_auto_adjust_ff_dim": false, "conv_L_cache": 3, "conv_bias": false, "hidden_size": 36,
      "intermediate_size": 56, "layer_types": ["conv", "full_attention", "conv"], "max_position_embeddings": 1024,
      "model_type": "lfm2", "norm_eps": 1e-05, "num_attention_heads": 6, "num_hidden_layers": 3,
      "num_key_value_heads": 2, "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
      "tie_word_embeddings": true, "vocab_size": 61})");
  }
  if (name == "falcon_h1") {
    return Json::parse(R"(
      {"attention_bias": false, "attention_in_multiplier": 1.2, "attention_out_multiplier": 0.8,
      "embedding_multiplier": 3.5, "head_dim": 12, "hidden_act": "silu", "hidden_size": 36, "intermediate_size": 56,
      "key_multiplier": 0.5, "lm_head_multiplier": 0.4, "mamba_chunk_size": 16, "mamba_conv_bias": true,
      "mamba_d_conv": 4, "mamba_d_head": 8, "mamba_d_ssm": 48, "mamba_d_state": 9, "mamba_expand": 2,
      "mamba_n_groups": 3, "mamba_n_heads": 6, "mamba_norm_before_gate": true, "mamba_proj_bias": false,
      "mamba_rms_norm": false, "max_position_embeddings": 1024, "mlp_bias": false, "mlp_multipliers": [0.7, 0.6],
      "model_type": "falcon_h1", "num_attention_heads": 6, "num_hidden_layers": 2, "num_key_value_heads": 2,
      "projectors_bias": false, "rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 10000.0, "rope_type":
      "default"}, "ssm_in_multiplier": 1.4, "ssm_multipliers": [0.6, 0.7, 0.9, 1.3, 0.8], "ssm_out_multiplier": 0.5,
      "tie_word_embeddings": false, "vocab_size": 61})");
  }
  if (name == "mamba") {
    return Json::parse(R"(
      {"conv_kernel": 4, "expand": 2, "hidden_act": "silu", "hidden_size": 24, "intermediate_size": 48,
      "layer_norm_epsilon": 1e-05, "model_type": "mamba", "num_hidden_layers": 2, "state_size": 5,
      "tie_word_embeddings": false, "time_step_rank": 3, "use_bias": true, "use_conv_bias": true, "vocab_size": 61})");
  }
  if (name == "mamba2") {
    return Json::parse(R"(
      {"chunk_size": 16, "conv_kernel": 3, "expand": 2, "head_dim": 12, "hidden_act": "silu", "hidden_size": 24,
      "layer_norm_epsilon": 1e-05, "model_type": "mamba2", "n_groups": 2, "num_heads": 4, "num_hidden_layers": 2,
      "state_size": 7, "tie_word_embeddings": false, "time_step_limit": [0.05, 0.5], "time_step_rank": 2,
      "use_bias": false, "use_conv_bias": true, "vocab_size": 61})");
  }
  return {};
}

inline Checkpoint state_model(const std::string& name, const std::string& folder) {
  ThreadPool pool(1);
  init_checkpoint(state_model_config(name), name, folder, DType::f32, 3, pool);
  return load_checkpoint(folder);
}

}  // namespace vitrine::test
