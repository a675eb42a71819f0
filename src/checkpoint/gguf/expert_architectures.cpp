// Architectures of GGUF files with routers, sinks and scaled queries.
#include <cmath>

#include "base/error.h"
#include "checkpoint/gguf/architecture.h"

namespace vitrine {
namespace {

using Kind = GgufKey::Kind;

/// Sizes of experts, and how DeepSeek V3's router weighs them.
std::vector<GgufKey> router_keys(std::string_view n_shared, std::string_view n_dense, std::string_view scale,
                                 bool has_groups) {
  std::vector<GgufKey> keys = {{"expert_count", "n_experts", Kind::size, true},
                               {"expert_used_count", "top_k", Kind::size, true},
                               {"expert_feed_forward_length", "d_ff_expert", Kind::size, true},
                               {"expert_shared_count", n_shared, Kind::size_or_none},
                               {"leading_dense_block_count", n_dense, Kind::size_or_none},
                               {"expert_weights_scale", scale, Kind::number},
                               {"expert_weights_norm", "norm_topk_prob", Kind::flag},
                               {"expert_gating_func", "expert_gating_func"}};
  if (!has_groups) return keys;
  return with_keys(keys, {{"expert_group_count", "n_group"}, {"expert_group_used_count", "topk_group"}});
}

/// The score of experts: 2 is the sigmoid, which is the family's only one.
void expect_sigmoid(Json& config, const StoredTensors& tensors) {
  if (config.value("expert_gating_func", 2) != 2) {
    throw Unsupported(tensors.where, "expert_gating_func: expected 2 (sigmoid), got {}",
                      config["expert_gating_func"].dump());
  }
  config.erase("expert_gating_func");
}

/// Sizes that are absent are 0.
void complete_sizes(Json& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (!config.contains(key)) config[key] = 0;
  }
}

/// The joint width of shared experts, if the file has it, follows from their number.
void drop_shared_width(Json& config, const StoredTensors& tensors, std::int64_t expected) {
  constexpr const char* kKey = "shared_expert_intermediate_size";
  if (config.contains(kKey) && config[kKey] != expected) {
    throw Unsupported(tensors.where, "expert_shared_feed_forward_length: expected {}, got {}", expected,
                      config[kKey].dump());
  }
  config.erase(kKey);
}

void complete_dots1(Json& config, const StoredTensors& tensors) {
  expect_sigmoid(config, tensors);
  complete_sizes(config, {"first_k_dense_replace", "n_shared_experts"});
}

void complete_glm4_moe(Json& config, const StoredTensors& tensors) {
  complete_dots1(config, tensors);
  config["use_qk_norm"] = tensors.all.contains("blk.0.attn_q_norm.weight");
  config["attention_bias"] = tensors.all.contains("blk.0.attn_q.bias");
}

void complete_exaone_moe(Json& config, const StoredTensors& tensors) {
  expect_sigmoid(config, tensors);
  complete_sizes(config, {"first_k_dense_replace", "num_shared_experts"});
  drop_shared_width(
      config, tensors,
      config["num_shared_experts"].get<std::int64_t>() * config["moe_intermediate_size"].get<std::int64_t>());
}

/// llama.cpp always scales the embeddings, and divides the weights only if the key says so.
void complete_afmoe(Json& config, const StoredTensors& tensors) {
  expect_sigmoid(config, tensors);
  complete_sizes(config, {"num_dense_layers", "num_shared_experts"});
  config["mup_enabled"] = true;
  if (config.value("norm_topk_prob", true) != true) {
    throw Unsupported(tensors.where, "afmoe.expert_weights_norm: expected true, got false");
  }
  config.erase("norm_topk_prob");
}

void complete_hunyuan_moe(Json& config, const StoredTensors& tensors) {
  drop_shared_width(config, tensors, config["intermediate_size"].get<std::int64_t>());
}

void complete_ernie_moe(Json& config, const StoredTensors& tensors) {
  complete_sizes(config, {"moe_layer_start_index", "moe_num_shared_experts"});
  drop_shared_width(
      config, tensors,
      config["moe_num_shared_experts"].get<std::int64_t>() * config["moe_intermediate_size"].get<std::int64_t>());
}

/// The file does not say that the ramp of YaRN begins and ends between pairs.
void complete_gpt_oss(Json& config, const StoredTensors& tensors) {
  if (config.contains("rope_scaling") && config["rope_scaling"]["rope_type"] == "yarn") {
    config["rope_scaling"]["truncate"] = false;
  }
  config["attention_bias"] = tensors.all.contains("blk.0.attn_q.bias");
}

/// llama.cpp norms q and k unless there are 128 experts, and assumes chunks of 8192 tokens.
void complete_llama4(Json& config, const StoredTensors&) {
  config["intermediate_size_mlp"] = config["intermediate_size"];
  const std::pair<const char*, const char*> words[] = {{"d_ff_expert", "intermediate_size"},
                                                       {"moe_layer_interval", "interleave_moe_layer_step"},
                                                       {"sliding_window", "attention_chunk_size"}};
  for (const auto& [word, key] : words) {
    if (!config.contains(word)) continue;
    config[key] = config[word];
    config.erase(word);
  }
  config["use_qk_norm"] = config["num_local_experts"] != 128;
}

void complete_jais2(Json& config, const StoredTensors& tensors) {
  config["attention_bias"] = tensors.all.contains("blk.0.attn_q.bias");
  config["mlp_bias"] = tensors.all.contains("blk.0.ffn_up.bias");
}

/// The scale of the queries is in the table of RoPE, whose original context is its interval. A file with a multiplier
/// of YaRN's logarithm has both of mscale equal.
void complete_mistral3(Json& config, const StoredTensors&) {
  if (!config.contains("rope_scaling")) return;
  Json& table = config["rope_parameters"] = config["rope_scaling"];
  config.erase("rope_scaling");
  for (const auto& [key, ours] :
       {std::pair("rope_theta", "rope_theta"), std::pair("llama_4_scaling_beta", "query_scale_beta")}) {
    if (config.contains(ours)) table[key] = config[ours];
    config.erase(ours);
  }
  if (!config.contains("mscale_all_dim")) return;
  table["mscale"] = table["mscale_all_dim"] = config["mscale_all_dim"];
  config.erase("mscale_all_dim");
}

/// The score of experts: 2 is the sigmoid, which is the family's only one.
void complete_minimax_m2(Json& config, const StoredTensors& tensors) {
  if (config["expert_gating_func"] != 2) {
    throw Unsupported(tensors.where, "minimax-m2.expert_gating_func: expected 2 (sigmoid), got {}",
                      config["expert_gating_func"].dump());
  }
  config.erase("expert_gating_func");
}

// What llama.cpp leaves out or assumes

const AttentionConfig& attention_in(const BlockConfig& block) { return *find<AttentionConfig>(block); }

std::string_view output_bias(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    if (attention_in(block).out_bias) return "the bias of attention's output";
  }
  return {};
}

std::string_view bias_of_attention(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    if (attention_in(block).qkv_bias) return "the biases of q, k and v";
  }
  return output_bias(config);
}

std::string_view misread_dots1(const ModelConfig& config) {
  if (config.head.tied) return "the tied head";
  for (const BlockConfig& block : config.blocks) {
    if (attention_in(block).n_kv_heads != attention_in(block).n_heads) return "the number of K/V heads";
  }
  return bias_of_attention(config);
}

std::string_view misread_exaone_moe(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    if (!attention_in(block).window && attention_in(block).rope) return "RoPE in layers without a window";
  }
  return bias_of_attention(config);
}

std::string_view misread_afmoe(const ModelConfig& config) {
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    if (attention_in(config.blocks[i]).rope.has_value() != ((i + 1) % 4 != 0)) return "the layers that have RoPE";
  }
  return output_bias(config);
}

std::string_view misread_gpt_oss(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    if (!attention_in(block).out_bias) return "attention without biases";
    if (find<MoeConfig>(block)->expert.clamped != ClampedSwiglu()) return "the limits of the experts' SwiGLU";
  }
  return {};
}

constexpr double kChunk = 8192;

std::string_view misread_llama4(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    const auto window = attention_in(block).window;
    if (window && static_cast<double>(*window) != kChunk) return "the size of a chunk";
  }
  return bias_of_attention(config);
}

/// Granite 3 and 4 with experts and without states, with or without shared experts.
bool has_experts_of(const ModelConfig& config, bool are_shared) {
  return std::all_of(config.blocks.begin(), config.blocks.end(), [&](const BlockConfig& block) {
    const auto* const moe = find<MoeConfig>(block);
    return find<AttentionConfig>(block) != nullptr && moe != nullptr && moe->shared.has_value() == are_shared;
  });
}
bool has_shared_experts(const ModelConfig& config) { return has_experts_of(config, true); }
bool has_no_shared_expert(const ModelConfig& config) { return has_experts_of(config, false); }

std::string_view misread_jais2(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    if (!attention_in(block).out_bias || !find<DenseConfig>(block)->bias) return "projections without biases";
  }
  return {};
}

}  // namespace

std::vector<GgufArchitecture> expert_architectures() {
  const std::vector<GgufKey> common = rms_and_rope_keys();
  const std::vector<TensorRule> second_norm = {{"blk.{l}.post_attention_norm", {"blocks.{l}.ln2"}}};
  const GgufKey window{"attention.sliding_window", "window", Kind::size_or_none};
  const GgufKey shared_width{"expert_shared_feed_forward_length", "shared_expert_intermediate_size"};
  const std::vector<GgufKey> granitemoe =
      with_keys(with_keys(common, granite_keys()),
                {{"expert_count", "n_experts", Kind::size, true}, {"expert_used_count", "top_k", Kind::size, true}});
  return {
      {.name = "granitemoe",
       .family = "granitemoe",
       .is_also = {"granitemoehybrid"},
       .written_for = has_no_shared_expert,
       .layout = RopeConfig::Layout::interleaved,
       .keys = granitemoe,
       .misread = bias_of_attention},
      {.name = "granitemoe",
       .family = "granitemoeshared",
       .is_also = {"granitemoehybrid"},
       .written_for = has_shared_experts,
       .layout = RopeConfig::Layout::interleaved,
       .keys = with_keys(granitemoe, {shared_width}),
       .chosen_by = "expert_shared_feed_forward_length",
       .misread = bias_of_attention},
      {.name = "jais2",
       .family = "jais2",
       .keys = with_keys(layer_norm_and_rope_keys("layer_norm_eps"), {{"attention.key_length", "head_dim"}}),
       .complete = complete_jais2,
       .misread = misread_jais2},
      {.name = "mistral3",
       .family = "ministral3",
       .layout = RopeConfig::Layout::interleaved,
       .keys = with_keys(common, {{"attention.temperature_scale", "query_scale_beta", Kind::number},
                                  {"rope.scaling.yarn_log_multiplier", "mscale_all_dim", Kind::number}}),
       .complete = complete_mistral3},
      {.name = "minimax-m2",
       .family = "minimax_m2",
       .keys = with_keys(common, {{"expert_count", "n_experts", Kind::size, true},
                                  {"expert_used_count", "top_k", Kind::size, true},
                                  {"expert_feed_forward_length", "d_ff_expert", Kind::size, true},
                                  {"expert_gating_func", "expert_gating_func", Kind::size, true}}),
       .rotary_fraction = "partial_rotary_factor",
       .complete = complete_minimax_m2},
      {.name = "gpt-oss",
       .family = "gpt_oss",
       .keys =
           with_keys(common, {{"expert_count", "n_experts", Kind::size, true},
                              {"expert_used_count", "top_k", Kind::size, true},
                              {"expert_feed_forward_length", "d_ff", Kind::size, true},
                              window,
                              {"attention.sliding_window_pattern", "sliding_window_pattern", Kind::size, false, 2.0}}),
       .tensors = second_norm,
       .complete = complete_gpt_oss,
       .misread = misread_gpt_oss},
      {.name = "llama4",
       .family = "llama4_text",
       .layout = RopeConfig::Layout::interleaved,
       .keys = with_keys(common, {{"expert_count", "n_experts", Kind::size, true},
                                  {"expert_used_count", "top_k", Kind::size, true},
                                  {"expert_feed_forward_length", "d_ff_expert", Kind::size, true},
                                  {"interleave_moe_layer_step", "moe_layer_interval", Kind::size, true},
                                  {"attention.sliding_window", "window", Kind::size, false, kChunk}}),
       .complete = complete_llama4,
       .misread = misread_llama4},
      {.name = "dots1",
       .family = "dots1",
       .keys =
           with_keys(common, router_keys("n_shared_experts", "first_k_dense_replace", "routed_scaling_factor", true)),
       .complete = complete_dots1,
       .misread = misread_dots1},
      {.name = "glm4moe",
       .family = "glm4_moe",
       .keys =
           with_keys(common, router_keys("n_shared_experts", "first_k_dense_replace", "routed_scaling_factor", true)),
       .rotary_fraction = "partial_rotary_factor",
       .tensors = second_norm,
       .complete = complete_glm4_moe,
       .misread = output_bias},
      {.name = "exaone-moe",
       .family = "exaone_moe",
       .keys = with_keys(
           with_keys(common, router_keys("num_shared_experts", "first_k_dense_replace", "routed_scaling_factor", true)),
           {shared_width,
            window,
            {"attention.sliding_window_pattern", "sliding_window_pattern", Kind::layers, false, 4.0}}),
       .complete = complete_exaone_moe,
       .misread = misread_exaone_moe},
      {.name = "afmoe",
       .family = "afmoe",
       .keys = with_keys(with_keys(common, router_keys("num_shared_experts", "num_dense_layers", "route_scale", false)),
                         {window}),
       .complete = complete_afmoe,
       .misread = misread_afmoe},
      {.name = "hunyuan-moe",
       .family = "hunyuan_v1_moe",
       .keys = with_keys(common, {{"expert_count", "n_experts", Kind::size, true},
                                  {"expert_used_count", "top_k", Kind::size, true},
                                  {"expert_feed_forward_length", "d_ff", Kind::size, true},
                                  shared_width}),
       .ignored = {"expert_shared_count"},
       .complete = complete_hunyuan_moe,
       .misread = output_bias},
      {.name = "ernie4_5-moe",
       .family = "ernie4_5_moe",
       .layout = RopeConfig::Layout::interleaved,
       .keys = with_keys(common, {{"expert_count", "n_experts", Kind::size, true},
                                  {"expert_used_count", "top_k", Kind::size, true},
                                  {"expert_feed_forward_length", "d_ff_expert", Kind::size, true},
                                  {"expert_shared_count", "moe_num_shared_experts", Kind::size_or_none},
                                  {"leading_dense_block_count", "moe_layer_start_index", Kind::size_or_none},
                                  {"interleave_moe_layer_step", "moe_layer_interval", Kind::size, true},
                                  shared_width}),
       .complete = complete_ernie_moe,
       .misread = output_bias},
  };
}

}  // namespace vitrine
