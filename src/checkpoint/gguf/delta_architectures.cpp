// Architectures of GGUF files with delta nets: Qwen3-Next, Qwen 3.5 and Kimi Linear. Sources: as in architecture.h.
#include "base/error.h"
#include "checkpoint/gguf/state_architectures.h"
#include "checkpoint/names.h"

namespace vitrine {
namespace {

using Kind = GgufKey::Kind;

std::vector<GgufKey> qwen_hybrid_keys() {
  return with_keys(rms_and_rope_keys(), {{"ssm.conv_kernel", "d_conv", Kind::size, true},
                                         {"ssm.state_size", "d_state", Kind::size, true},
                                         {"ssm.group_count", "n_groups", Kind::size, true},
                                         {"ssm.time_step_rank", "dt_rank", Kind::size, true},
                                         {"ssm.inner_size", "d_inner", Kind::size, true},
                                         {"attention.recurrent_layers", "layer_types", Kind::layer_states},
                                         {"full_attention_interval", "full_attention_interval"}});
}

std::vector<GgufKey> qwen_expert_keys() {
  return with_keys(qwen_hybrid_keys(), {{"expert_count", "n_experts", Kind::size, true},
                                        {"expert_used_count", "top_k", Kind::size, true},
                                        {"expert_feed_forward_length", "d_ff_expert"},
                                        {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}});
}

/// Of Qwen3-Next, newer files have attn_qkv and attn_gate in place of ssm_in, and all have ssm_ba; of Qwen 3.5, files
/// have ssm_beta and ssm_alpha.
std::vector<TensorRule> qwen_hybrid_tensors() {
  std::vector<TensorRule> rules = whole_names({{"blk.{l}.ssm_a", {"blocks.{l}.linear_attn.a_log"}},
                                               {"blk.{l}.ssm_dt.bias", {"blocks.{l}.linear_attn.dt_bias"}}});
  const TensorRule more[] = {{"blk.{l}.post_attention_norm", {"blocks.{l}.ln2"}},
                             {"blk.{l}.attn_q", {"blocks.{l}.attn.wq", "blocks.{l}.attn.w_gate"}, false, Rows::by_head},
                             {"blk.{l}.ssm_in", {"blocks.{l}.linear_attn.w_qkvz"}},
                             {"blk.{l}.ssm_ba", {"blocks.{l}.linear_attn.w_ba"}},
                             {"blk.{l}.attn_qkv", {"blocks.{l}.linear_attn.w_qkv"}},
                             {"blk.{l}.attn_gate", {"blocks.{l}.linear_attn.w_z"}},
                             {"blk.{l}.ssm_conv1d", {"blocks.{l}.linear_attn.conv"}},
                             {"blk.{l}.ssm_norm", {"blocks.{l}.linear_attn.norm"}},
                             {"blk.{l}.ssm_out", {"blocks.{l}.linear_attn.wo"}}};
  rules.insert(rules.end(), std::begin(more), std::end(more));
  return rules;
}

std::vector<TensorRule> qwen3next_tensors() {
  std::vector<TensorRule> rules = qwen_hybrid_tensors();
  rules.push_back(
      {"blk.{l}.ssm_ba", {"blocks.{l}.linear_attn.w_b", "blocks.{l}.linear_attn.w_a"}, false, Rows::by_kv_head});
  return rules;
}

std::vector<TensorRule> qwen35_tensors() {
  std::vector<TensorRule> rules = qwen_hybrid_tensors();
  rules.push_back({"blk.{l}.ssm_beta", {"blocks.{l}.linear_attn.w_b"}});
  rules.push_back({"blk.{l}.ssm_alpha", {"blocks.{l}.linear_attn.w_a"}});
  return rules;
}

void complete_qwen_hybrid(Json& config, const StoredTensors& tensors) {
  rename_key(config, "d_conv", "linear_conv_kernel_dim");
  rename_key(config, "d_state", "linear_key_head_dim");
  rename_key(config, "n_groups", "linear_num_key_heads");
  rename_key(config, "dt_rank", "linear_num_value_heads");
  const auto inner = config["d_inner"].get<std::int64_t>(),
             heads = config["linear_num_value_heads"].get<std::int64_t>();
  if (inner % heads != 0) {
    throw BadCheckpoint(tensors.where, "ssm.inner_size: expected a multiple of {} (ssm.time_step_rank), got {}", heads,
                        inner);
  }
  config["linear_value_head_dim"] = inner / heads;
  config.erase("d_inner");
}

void complete_qwen_experts(Json& config, const StoredTensors& tensors) {
  complete_qwen_hybrid(config, tensors);
  const auto d_ff = config.value("intermediate_size", std::int64_t{0});
  const bool has_widths =
      config.contains("moe_intermediate_size") && config.contains("shared_expert_intermediate_size");
  if (d_ff == 0 && !has_widths) throw BadCheckpoint(tensors.where, "key expert_feed_forward_length is missing");
  if (!config.contains("moe_intermediate_size")) {
    config["moe_intermediate_size"] = d_ff / config["num_experts_per_tok"].get<std::int64_t>();
  }
  if (!config.contains("shared_expert_intermediate_size")) config["shared_expert_intermediate_size"] = d_ff;
}

void complete_qwen35moe(Json& config, const StoredTensors& tensors) {
  rename_key(config, "width_of_none", "intermediate_size");
  complete_qwen_experts(config, tensors);
  config.erase("intermediate_size");
}

std::string_view misread_qwen_hybrid(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    const auto* const net = find<DeltaNetConfig>(block);
    if (net != nullptr && net->key_dim != net->value_dim) return "values of other sizes than keys";
    const auto* const moe = find<MoeConfig>(block);
    if (moe != nullptr && !moe->renormalize) return "the weights of experts, which are not divided by their sum";
  }
  return {};
}

// Kimi Linear

bool has_delta_net(const BlockConfig& block) { return find<DeltaNetConfig>(block) != nullptr; }
bool has_attention(const BlockConfig& block) { return !has_delta_net(block); }

std::vector<GgufKey> kimi_keys() {
  return {kLayersWithHeads,
          {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number, true},
          {"ssm.conv_kernel", "d_conv", Kind::size, true},
          {"kda.head_dim", "d_state", Kind::size, true},
          {"rope.dimension_count", "rope_dim", Kind::size, true},
          {"attention.q_lora_rank", "q_rank"},
          {"attention.kv_lora_rank", "kv_rank", Kind::size, true},
          {"attention.key_length", "row_length"},
          {"attention.value_length", "latent_length"},
          {"attention.key_length_mla", "key_length", Kind::size, true},
          {"attention.value_length_mla", "value_length", Kind::size, true},
          {"leading_dense_block_count", "first_k_dense_replace", Kind::count},
          {"expert_count", "n_experts", Kind::size, true},
          {"expert_used_count", "top_k", Kind::size, true},
          {"expert_feed_forward_length", "d_ff_expert", Kind::size, true},
          {"expert_shared_count", "num_shared_experts", Kind::count, true},
          {"expert_weights_scale", "routed_scaling_factor", Kind::number},
          {"expert_gating_func", "expert_gating_func", Kind::size, true},
          {"expert_group_count", "n_group", Kind::size, false, 1.0},
          {"expert_group_used_count", "topk_group"}};
}

/// Layers of both kinds have projections called attn_q and attn_output.
std::vector<TensorRule> kimi_tensors() {
  std::vector<TensorRule> rules = whole_names({{"blk.{l}.ssm_a", {"blocks.{l}.linear_attn.a_log"}},
                                               {"blk.{l}.ssm_dt.bias", {"blocks.{l}.linear_attn.dt_bias"}}});
  const TensorRule both[] = {
      {"blk.{l}.attn_q", {"blocks.{l}.linear_attn.wq"}, false, Rows::stacked, has_delta_net},
      {"blk.{l}.attn_q", {"blocks.{l}.attn.wq"}, false, Rows::stacked, has_attention},
      {"blk.{l}.attn_k", {"blocks.{l}.linear_attn.wk"}, false, Rows::stacked, has_delta_net},
      {"blk.{l}.attn_v", {"blocks.{l}.linear_attn.wv"}, false, Rows::stacked, has_delta_net},
      {"blk.{l}.attn_output", {"blocks.{l}.linear_attn.wo"}, false, Rows::stacked, has_delta_net},
      {"blk.{l}.attn_output", {"blocks.{l}.attn.wo"}, false, Rows::stacked, has_attention}};
  const TensorRule own[] = {{"blk.{l}.ssm_conv1d_q", {"blocks.{l}.linear_attn.q_conv"}},
                            {"blk.{l}.ssm_conv1d_k", {"blocks.{l}.linear_attn.k_conv"}},
                            {"blk.{l}.ssm_conv1d_v", {"blocks.{l}.linear_attn.v_conv"}},
                            {"blk.{l}.ssm_f_a", {"blocks.{l}.linear_attn.w_a_down"}},
                            {"blk.{l}.ssm_f_b", {"blocks.{l}.linear_attn.w_a"}},
                            {"blk.{l}.ssm_g_a", {"blocks.{l}.linear_attn.w_z_down"}},
                            {"blk.{l}.ssm_g_b", {"blocks.{l}.linear_attn.w_z"}},
                            {"blk.{l}.ssm_beta", {"blocks.{l}.linear_attn.w_b"}},
                            {"blk.{l}.ssm_norm", {"blocks.{l}.linear_attn.norm"}}};
  rules.insert(rules.end(), std::begin(both), std::end(both));
  rules.insert(rules.end(), std::begin(own), std::end(own));
  const std::vector<TensorRule> latent = latent_tensors();
  rules.insert(rules.end(), latent.begin(), latent.end());
  return rules;
}

/// The file has no key for the heads of delta nets: llama.cpp has as many as of attention.
void complete_kimi(Json& config, const StoredTensors& tensors) {
  complete_layers_with_state(config, tensors);
  erase_keys(config, {"num_key_value_heads", "row_length", "latent_length"});
  rename_key(config, "d_conv", "linear_conv_kernel_dim");
  rename_key(config, "d_state", "linear_head_dim");
  rename_key(config, "n_experts", "num_experts");
  rename_key(config, "top_k", "num_experts_per_token");
  rename_key(config, "d_ff_expert", "moe_intermediate_size");
  rename_key(config, "n_group", "num_expert_group");
  rename_key(config, "value_length", "v_head_dim");
  const auto nope = config["key_length"].get<std::int64_t>() - config["qk_rope_head_dim"].get<std::int64_t>();
  if (nope < 1) throw BadCheckpoint(tensors.where, "attention.key_length_mla: expected more than rope.dimension_count");
  config["qk_nope_head_dim"] = nope;
  config.erase("key_length");
  config["linear_num_heads"] = config["num_attention_heads"];
  for (std::int64_t i = 0; i < count_layers(config, tensors); ++i) {
    const auto beta = tensors.all.find(with_layer("blk.{l}.ssm_beta.weight", i));
    if (beta != tensors.all.end()) config["linear_num_heads"] = beta->second.shape.front();
  }
  if (config["expert_gating_func"] != 2) {
    throw Unsupported(tensors.where, "kimi-linear.expert_gating_func: expected 2 (sigmoid), got {}",
                      config["expert_gating_func"].dump());
  }
  config.erase("expert_gating_func");
}

std::string_view misread_kimi(const ModelConfig& config) {
  std::int64_t n_heads = 0;
  for (const BlockConfig& block : config.blocks) {
    if (const auto* const attention = find<LatentAttentionConfig>(block)) {
      if (attention->q_rank) return "the latent of queries";
      if (attention->down_bias || attention->out_bias) return "the biases of attention";
      n_heads = attention->n_heads;
    }
    const auto* const moe = find<MoeConfig>(block);
    if (moe != nullptr && !moe->renormalize) return "the weights of experts, which are not divided by their sum";
  }
  for (const BlockConfig& block : config.blocks) {
    const auto* const net = find<DeltaNetConfig>(block);
    if (net != nullptr && n_heads != 0 && net->n_heads != n_heads) return "heads of delta nets other than of attention";
  }
  return {};
}

}  // namespace

std::vector<GgufArchitecture> delta_architectures() {
  return {
      {.name = "qwen3next",
       .family = "qwen3_next",
       .keys = qwen_expert_keys(),
       .rotary_fraction = "partial_rotary_factor",
       .tensors = qwen3next_tensors(),
       .complete = complete_qwen_experts,
       .misread = misread_qwen_hybrid},
      {.name = "qwen35",
       .family = "qwen3_5_text",
       .keys = qwen_hybrid_keys(),
       .has_rope_sections = true,
       .alternates_heads = true,
       .rotary_fraction = "partial_rotary_factor",
       .tensors = qwen35_tensors(),
       .complete = complete_qwen_hybrid,
       .misread = misread_qwen_hybrid},
      {.name = "qwen35moe",
       .family = "qwen3_5_moe_text",
       .keys = with_keys(qwen_expert_keys(), {{"feed_forward_length", "width_of_none"}}),  // no layer is dense
       .has_rope_sections = true,
       .alternates_heads = true,
       .rotary_fraction = "partial_rotary_factor",
       .tensors = qwen35_tensors(),
       .complete = complete_qwen35moe,
       .misread = misread_qwen_hybrid},
      {.name = "kimi-linear",
       .family = "kimi_linear",
       .keys = kimi_keys(),
       .splits_kv_b = true,
       .tensors = kimi_tensors(),
       .complete = complete_kimi,
       .misread = misread_kimi},
  };
}

}  // namespace vitrine
