// Small models whose layers have states, with random weights.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/init.h"
#include "checkpoint/load.h"

namespace vitrine::test {

/// Delta nets with attention, KDA with latent attention, convolutions with attention, Mamba with attention in one
/// block, and Mamba of both kinds alone.
inline const std::vector<std::string> kStateModels = {"qwen3_5_text", "kimi_linear", "lfm2",
                                                      "falcon_h1",    "mamba",       "mamba2"};

/// The config.json of such a model, with a context of 1024 tokens where there is one.
inline Json state_model_config(const std::string& name) {
  Json c = {{"model_type", name}, {"vocab_size", 61},        {"num_hidden_layers", 2},
            {"hidden_size", 24},  {"intermediate_size", 40}, {"tie_word_embeddings", false}};
  if (name == "mamba" || name == "mamba2") {
    c.update({{"conv_kernel", 3},
              {"expand", 2},
              {"hidden_act", "silu"},
              {"layer_norm_epsilon", 1e-5},
              {"state_size", 5},
              {"use_bias", false},
              {"use_conv_bias", true}});
    if (name == "mamba") c.update({{"time_step_rank", 3}, {"intermediate_size", 48}});
    if (name == "mamba2") c.update({{"head_dim", 12}, {"num_heads", 4}, {"n_groups", 2}, {"chunk_size", 16}});
    if (name == "mamba2") c.erase("intermediate_size");
    return c;
  }
  c.update({{"max_position_embeddings", 1024},
            {"rms_norm_eps", 1e-6},
            {"hidden_act", "silu"},
            {"head_dim", 8},
            {"num_attention_heads", 3},
            {"num_key_value_heads", 1},
            {"rope_theta", 5000.0}});
  if (name == "qwen3_5_text") {
    c.update(
        {{"layer_types", {"linear_attention", "full_attention"}},
         {"linear_conv_kernel_dim", 4},
         {"linear_key_head_dim", 6},
         {"linear_num_key_heads", 1},
         {"linear_num_value_heads", 3},
         {"linear_value_head_dim", 10},
         {"attention_bias", false},
         {"rope_parameters", {{"partial_rotary_factor", 0.25}, {"rope_theta", 5000.0}, {"rope_type", "default"}}}});
  } else if (name == "kimi_linear") {
    c.update({{"layer_types", {"linear_attention", "full_attention"}},
              {"linear_conv_kernel_dim", 3},
              {"linear_head_dim", 6},
              {"linear_num_heads", 3},
              {"mlp_layer_types", {"dense", "dense"}},
              {"model_max_length", 1024},
              {"kv_lora_rank", 10},
              {"q_lora_rank", nullptr},
              {"qk_head_dim", 12},
              {"qk_nope_head_dim", 8},
              {"qk_rope_head_dim", 4},
              {"v_head_dim", 8},
              {"num_key_value_heads", 3},
              {"moe_intermediate_size", 8},
              {"num_experts", 2},
              {"num_experts_per_token", 1}});
  } else if (name == "lfm2") {
    c.update({{"layer_types", {"conv", "full_attention"}},
              {"conv_L_cache", 3},
              {"conv_bias", false},
              {"norm_eps", 1e-5},
              {"block_auto_adjust_ff_dim", false}});
  } else {
    c.update({{"attention_bias", false},
              {"mamba_conv_bias", true},
              {"mamba_d_conv", 4},
              {"mamba_d_head", 8},
              {"mamba_d_ssm", 32},
              {"mamba_d_state", 9},
              {"mamba_expand", 2},
              {"mamba_n_groups", 2},
              {"mamba_n_heads", 4},
              {"mamba_norm_before_gate", true},
              {"mamba_proj_bias", false},
              {"mamba_rms_norm", false},
              {"mlp_bias", false},
              {"projectors_bias", false}});
  }
  return c;
}

inline Checkpoint state_model(const std::string& name, const std::string& folder) {
  ThreadPool pool(1);
  init_checkpoint(state_model_config(name), name, folder, DType::f32, 3, pool);
  return load_checkpoint(folder);
}

}  // namespace vitrine::test
