// Architectures of GGUF files that have latent attention (MLA). Sources: as in architecture.h.
#include <cmath>

#include "base/error.h"
#include "checkpoint/gguf/architecture.h"

namespace vitrine {

std::vector<TensorRule> latent_tensors() {
  return {{"blk.{l}.attn_q_a", {"blocks.{l}.attn.wq_a"}},
          {"blk.{l}.attn_q_a_norm", {"blocks.{l}.attn.q_latent_norm"}},
          {"blk.{l}.attn_q_b", {"blocks.{l}.attn.wq_b"}},
          {"blk.{l}.attn_kv_a_mqa", {"blocks.{l}.attn.wkv_a"}},
          {"blk.{l}.attn_kv_a_norm", {"blocks.{l}.attn.kv_latent_norm"}},
          {"blk.{l}.attn_kv_b", {"blocks.{l}.attn.wkv_b"}},
          {"blk.{l}.attn_k_b", {"blocks.{l}.attn.wk_b"}},
          {"blk.{l}.attn_v_b", {"blocks.{l}.attn.wv_b"}}};
}

namespace {

using Kind = GgufKey::Kind;

/// Latent attention, and what the file says of its heads and of what the cache keeps.
std::vector<GgufKey> latent_keys(std::vector<GgufKey> more) {
  std::vector<GgufKey> keys = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number, true},
                               {"rope.freq_base", "rope_theta", Kind::number},
                               {"rope.dimension_count", "rope_dim", Kind::size, true},
                               {"attention.q_lora_rank", "q_rank"},
                               {"attention.kv_lora_rank", "kv_rank", Kind::size, true}};
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// DeepSeek's experts.
std::vector<GgufKey> deepseek_keys() {
  return latent_keys({{"attention.head_count_kv", "n_kv_heads"},
                      {"leading_dense_block_count", "first_k_dense_replace", Kind::count},
                      {"attention.key_length", "row_length", Kind::size, true},
                      {"attention.value_length", "latent_length", Kind::size, true},
                      {"attention.key_length_mla", "key_length"},
                      {"attention.value_length_mla", "value_length"},
                      {"expert_feed_forward_length", "d_ff_expert", Kind::size, true},
                      {"expert_count", "n_experts", Kind::size, true},
                      {"expert_used_count", "top_k", Kind::size, true},
                      {"expert_shared_count", "n_shared_experts", Kind::count},
                      {"expert_weights_scale", "routed_scaling_factor", Kind::number},
                      {"expert_weights_norm", "norm_topk_prob", Kind::flag, false, 0.0},
                      {"expert_gating_func", "expert_gating_func"},
                      {"expert_group_count", "n_group"},
                      {"expert_group_used_count", "topk_group"},
                      {"rope.scaling.yarn_log_multiplier", "yarn_log_multiplier", Kind::number}});
}

/// Those of DeepSeek, with the scale of the queries. Routers are softmax.
std::vector<GgufKey> mistral4_keys() {
  std::vector<GgufKey> keys =
      with_keys(deepseek_keys(), {{"attention.temperature_scale", "query_scale_beta", Kind::number},
                                  {"attention.temperature_length", "query_scale_interval"}});
  for (GgufKey& key : keys) {
    if (key.name == "expert_gating_func") key.usual = 1.0;
  }
  return keys;
}

/// Those of latent attention, and the gates and the rest of all experts in one tensor.
std::vector<TensorRule> mistral4_tensors() {
  std::vector<TensorRule> rules = latent_tensors();
  rules.push_back(
      {"blk.{l}.ffn_gate_up_exps", {"blocks.{l}.mlp.experts.{e}.w_gate", "blocks.{l}.mlp.experts.{e}.w_up"}});
  return rules;
}

/// Removes a key, and returns its number; `otherwise` if it is absent.
double take_number(Json& config, const char* key, double otherwise) {
  const double number = config.value(key, otherwise);
  config.erase(key);
  return number;
}

/// Sets the sizes of a head from that of its query and key. A file without a latent of queries has no key for it.
void set_head_sizes(Json& config, double key_length, const std::string& where) {
  const double nope = key_length - config["qk_rope_head_dim"].get<double>();
  if (nope < 1) throw BadCheckpoint(where, "expected keys of more elements than RoPE rotates, got {}", key_length);
  config["qk_nope_head_dim"] = static_cast<std::int64_t>(nope);
  if (!config.contains("q_lora_rank")) config["q_lora_rank"] = nullptr;
  config.erase("num_key_value_heads");  // of what the cache keeps
}

/// Files with attn_kv_b have the sizes of heads where others have those of the cache's row.
void complete_deepseek2(Json& config, const StoredTensors& tensors) {
  const double row = take_number(config, "row_length", 0), latent = take_number(config, "latent_length", 0);
  set_head_sizes(config, take_number(config, "key_length", row), tensors.where);
  config["v_head_dim"] = static_cast<std::int64_t>(take_number(config, "value_length", latent));
  if (!config.contains("norm_topk_prob")) config["norm_topk_prob"] = false;
  const double gating = take_number(config, "expert_gating_func", 1);
  config["scoring_func"] = gating == 2 ? "sigmoid" : "softmax";
  const bool has_groups = config.contains("n_group") && config["n_group"] != 1;
  if (gating != 2 && has_groups) config["topk_method"] = "group_limited_greedy";
  const double all_dim = std::round(take_number(config, "yarn_log_multiplier", 0) * 1e7) / 1e6;
  if (all_dim == 0 || !config.contains("rope_scaling")) return;
  config["rope_scaling"]["mscale"] = config["rope_scaling"]["mscale_all_dim"] = all_dim;
}

/// Without experts: files call all layers dense, and have the FFN's width also as that of an expert.
std::vector<GgufKey> youtu_keys() {
  return latent_keys({{"attention.head_count_kv", "n_kv_heads"},
                      {"leading_dense_block_count", "n_layers", Kind::size, true},
                      {"attention.key_length", "row_length", Kind::size, true},
                      {"attention.value_length", "latent_length", Kind::size, true},
                      {"attention.key_length_mla", "key_length"},
                      {"attention.value_length_mla", "value_length"},
                      {"expert_feed_forward_length", "d_ff", Kind::size, true},
                      {"expert_shared_count", "n_shared_experts", Kind::count, true}});
}

void complete_youtu(Json& config, const StoredTensors& tensors) {
  complete_deepseek2(config, tensors);
  for (const char* key : {"norm_topk_prob", "scoring_func", "n_shared_experts"}) config.erase(key);
}

/// The scale of the queries, which files of llama.cpp's converter lack, is in the table of RoPE; its interval is the
/// original context there.
void complete_mistral4(Json& config, const StoredTensors& tensors) {
  complete_deepseek2(config, tensors);
  for (const char* key : {"scoring_func", "topk_method"}) config.erase(key);
  const double beta = take_number(config, "query_scale_beta", 0),
               interval = take_number(config, "query_scale_interval", 0);
  if (!config.contains("rope_scaling")) return;
  Json& table = config["rope_parameters"] = config["rope_scaling"];
  config.erase("rope_scaling");
  table["rope_theta"] = take_number(config, "rope_theta", 10000);
  table["llama_4_scaling_beta"] = beta;
  if (interval == 0 || table["original_max_position_embeddings"] == interval) return;
  throw Unsupported(tensors.where, "mistral4.attention.temperature_length: expected the original context, got {}",
                    interval);
}

/// Values have d_model / n_heads elements.
void complete_minicpm3(Json& config, const StoredTensors& tensors) {
  set_head_sizes(config, take_number(config, "key_length", 0), tensors.where);
}

/// llama.cpp ranks groups by the sum of their two largest scores, and adds no biases.
std::string_view deepseek2_misread(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    const auto* const attention = find<LatentAttentionConfig>(block);
    if (attention->down_bias || attention->out_bias) return "the biases of attention";
    const auto* const moe = find<MoeConfig>(block);
    const bool by_largest =
        moe != nullptr && moe->router.groups > 1 && moe->router.group_rank == RouterConfig::GroupRank::largest;
    if (by_largest) return "the rank of a group of experts, its largest score";
  }
  return {};
}

}  // namespace

std::vector<GgufArchitecture> latent_architectures() {
  return {
      {.name = "deepseek2",
       .family = "deepseek_v2",
       .layout = RopeConfig::Layout::interleaved,
       .keys = deepseek_keys(),
       .splits_kv_b = true,
       .tensors = latent_tensors(),
       .complete = complete_deepseek2,
       .misread = deepseek2_misread},
      {.name = "deepseek2",
       .family = "deepseek_v3",
       .is_also = {"kimi_k2", "glm4_moe_lite"},
       .layout = RopeConfig::Layout::interleaved,
       .keys = deepseek_keys(),
       .chosen_by = "expert_gating_func",
       .chosen_for = 2,
       .splits_kv_b = true,
       .tensors = latent_tensors(),
       .complete = complete_deepseek2,
       .misread = deepseek2_misread},
      {.name = "deepseek2",
       .family = "youtu",
       .layout = RopeConfig::Layout::interleaved,
       .keys = youtu_keys(),
       .chosen_by = "expert_count",
       .chosen_for = 0,
       .splits_kv_b = true,
       .tensors = latent_tensors(),
       .complete = complete_youtu,
       .misread = deepseek2_misread},
      {.name = "mistral4",
       .family = "mistral4",
       .layout = RopeConfig::Layout::interleaved,
       .keys = mistral4_keys(),
       .splits_kv_b = true,
       .tensors = mistral4_tensors(),
       .complete = complete_mistral4,
       .misread = deepseek2_misread},
      {.name = "minicpm3",
       .family = "minicpm3",
       .keys = latent_keys(
           {{"attention.head_count_kv", "n_heads"}, {"attention.key_length", "key_length", Kind::size, true}}),
       .tensors = latent_tensors(),
       .complete = complete_minicpm3},
  };
}

}  // namespace vitrine
