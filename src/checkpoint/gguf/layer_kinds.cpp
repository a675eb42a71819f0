#include "checkpoint/gguf/layer_kinds.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

using Kind = GgufKey::Kind;

/// Moves the sizes of both kinds of layers to the keys of config.json. The file has a list of them, or one for all.
void complete_heads_by_kind(Json& config, std::string_view where) {
  const std::size_t n_layers = config["layer_types"].size();
  const auto list_of = [&](const char* key) {
    const Json value = config[key];
    if (value.is_array() && value.size() != n_layers) {
      throw BadCheckpoint(where, "{}: expected one for each of {} layers, got {}", key, n_layers, value.size());
    }
    return value.is_array() ? value.get<std::vector<std::int64_t>>() : std::vector(n_layers, value.get<std::int64_t>());
  };
  const std::vector<std::int64_t> n_kv_heads = list_of("num_key_value_heads"), d_ff = list_of("intermediate_size");
  for (std::size_t i = 0; i < n_layers; ++i) {
    const bool is_full = config["layer_types"][i] == "full_attention";
    config[is_full ? "num_global_key_value_heads" : "num_key_value_heads"] = n_kv_heads[i];
  }
  config["intermediate_size"] = d_ff.front();
  config["use_double_wide_mlp"] = d_ff.back() != d_ff.front();
}

/// RoPE of both kinds: the divisors are 1 for the pairs of a full layer that rotate, which come first.
void complete_ropes_by_kind(Json& config, const StoredTensors& tensors) {
  const auto head_dim = config["global_head_dim"].get<std::int64_t>();
  Json full = {{"rope_type", "default"}, {"rope_theta", config["rope_theta"]}};
  if (const auto it = tensors.all.find(kRopeDivisors); it != tensors.all.end()) {
    const std::vector<float> divisors = read_rope_factors(it->second, kRopeDivisors);
    const auto n_rotated = std::count(divisors.begin(), divisors.end(), 1.0f);
    const bool is_known =
        std::all_of(divisors.begin() + n_rotated, divisors.end(), [](float divisor) { return divisor == kNoRotation; });
    if (!is_known) throw Unsupported(it->second.file, "tensor {}: expected ones, then only 1e30", kRopeDivisors);
    full["rope_type"] = "proportional";
    full["partial_rotary_factor"] = (2.0 * static_cast<double>(n_rotated) + 0.5) / static_cast<double>(head_dim);
  }
  config["rope_parameters"] = {
      {"full_attention", full},
      {"sliding_attention",
       {{"rope_type", "default"}, {"rope_theta", config.value("rope_local_base_freq", Json(10000.0))}}}};
  for (const char* key : {"rope_theta", "rope_local_base_freq"}) config.erase(key);
}

}  // namespace

std::vector<GgufKey> layer_kind_keys() {
  return {{"feed_forward_length", "d_ff", Kind::layer_sizes, true},
          {"attention.head_count_kv", "n_kv_heads", Kind::layer_sizes, true},
          {"attention.key_length", "global_head_dim", Kind::size, true},
          {"attention.key_length_swa", "head_dim", Kind::size, true},
          {"attention.value_length", "value_length"},
          {"attention.value_length_swa", "value_length_of_window"},
          {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number, true},
          {"attention.sliding_window", "window", Kind::size, true},
          {"attention.sliding_window_pattern", "layer_types", Kind::layer_flags, true},
          {"attention.shared_kv_layers", "num_kv_shared_layers", Kind::size_or_none},
          {"rope.freq_base", "rope_theta", Kind::number},
          {"rope.freq_base_swa", "rope_local_base_freq", Kind::number},
          {"rope.dimension_count", "rotary_dim"},
          {"rope.dimension_count_swa", "rotary_dim_of_window"},
          {"embedding_length_per_layer_input", "hidden_size_per_layer_input", Kind::size_or_none},
          {"expert_count", "n_experts", Kind::size_or_none},
          {"expert_used_count", "top_k", Kind::size_or_none},
          {"expert_feed_forward_length", "d_ff_expert"},
          {"final_logit_softcapping", "softcap_or_zero", Kind::number}};
}

std::vector<TensorRule> layer_kind_tensors() {
  std::vector<TensorRule> rules = {
      {"per_layer_token_embd", {"per_layer_embed"}},
      {"per_layer_model_proj", {"per_layer_proj"}},
      {"per_layer_proj_norm", {"ln_per_layer"}},
      {"blk.{l}.inp_gate", {"blocks.{l}.ple.w_gate"}},
      {"blk.{l}.proj", {"blocks.{l}.ple.w_proj"}},
      {"blk.{l}.post_norm", {"blocks.{l}.ln3_post"}},
      {"blk.{l}.layer_output_scale", {"blocks.{l}.layer_scalar"}},
      {"blk.{l}.ffn_gate", {"blocks.{l}.mlp.shared.w_gate"}},
      {"blk.{l}.ffn_up", {"blocks.{l}.mlp.shared.w_up"}},
      {"blk.{l}.ffn_down", {"blocks.{l}.mlp.shared.w_down"}},
      {"blk.{l}.ffn_gate_up_exps", {"blocks.{l}.mlp.experts.{e}.w_gate", "blocks.{l}.mlp.experts.{e}.w_up"}},
      {"blk.{l}.pre_ffw_norm_2", {"blocks.{l}.mlp.ln_experts"}},
      {"blk.{l}.post_ffw_norm_1", {"blocks.{l}.mlp.ln_shared_post"}},
      {"blk.{l}.post_ffw_norm_2", {"blocks.{l}.mlp.ln_experts_post"}}};
  for (TensorRule scale : {TensorRule{"blk.{l}.ffn_gate_inp.scale", {"blocks.{l}.mlp.ln_router.weight"}},
                           TensorRule{"blk.{l}.ffn_down_exps.scale", {"blocks.{l}.mlp.expert_scale.weight"}}}) {
    scale.has_ending = false;
    rules.push_back(scale);
  }
  return rules;
}

void complete_layer_kinds(Json& config, const StoredTensors& tensors) {
  if (!config.contains("layer_types") || config["layer_types"].empty()) {
    throw BadCheckpoint(tensors.where, "key gemma4.attention.sliding_window_pattern: expected a flag for each layer");
  }
  const std::pair<const char*, const char*> kSame[] = {{"value_length", "global_head_dim"},
                                                       {"value_length_of_window", "head_dim"},
                                                       {"rotary_dim", "global_head_dim"},
                                                       {"rotary_dim_of_window", "head_dim"}};
  for (const auto& [key, other] : kSame) {
    if (config.contains(key) && config[key] != config[other]) {
      throw Unsupported(tensors.where, "{}: expected {}, got {}", key, config[other].dump(), config[key].dump());
    }
    config.erase(key);
  }
  constexpr double kUsualSoftcap = 30;  // what llama.cpp takes an absent key for
  const double softcap = config.value("softcap_or_zero", kUsualSoftcap);
  config["final_logit_softcapping"] = softcap != 0 ? Json(softcap) : Json();
  config.erase("softcap_or_zero");
  complete_heads_by_kind(config, tensors.where);
  complete_ropes_by_kind(config, tensors);
  config["attention_k_eq_v"] = false;
  for (std::size_t i = 0; i < config["layer_types"].size(); ++i) {
    const std::string layer = "blk." + std::to_string(i);
    const bool has_keys = tensors.all.contains(layer + ".attn_k.weight");
    if (has_keys && !tensors.all.contains(layer + ".attn_v.weight")) config["attention_k_eq_v"] = true;
  }
  for (const char* key : {"num_kv_shared_layers", "hidden_size_per_layer_input"}) {
    if (!config.contains(key)) config[key] = 0;
  }
  if (const auto table = tensors.all.find("per_layer_token_embd.weight"); table != tensors.all.end()) {
    config["vocab_size_per_layer_input"] = table->second.shape.front();
  }
  config["enable_moe_block"] = config.contains("num_experts");
}

std::string_view misread_layer_kinds(const ModelConfig& config) {
  std::int64_t first = 0;
  while (first < static_cast<std::int64_t>(config.blocks.size()) &&
         !attention_of(config, static_cast<std::size_t>(first))->kv_layer) {
    ++first;
  }
  for (std::size_t layer = 0; layer < config.blocks.size(); ++layer) {
    const AttentionConfig& attention = *attention_of(config, layer);
    const std::int64_t assumed = first - (attention.window ? 2 : 1);
    if (attention.qkv_bias || attention.out_bias) return "the biases of attention";
    if (attention.kv_layer && *attention.kv_layer != assumed) return "the layers whose keys and values others read";
    const bool rotates_all =
        !attention.rope || std::find(attention.rope->frequency.begin(), attention.rope->frequency.end(), 0.0f) ==
                               attention.rope->frequency.end();
    if (!attention.window && rotates_all) return "RoPE on all of a head in full layers";
  }
  return {};
}

std::vector<const AttentionConfig*> attentions_of(const ModelConfig& config) {
  std::vector<const AttentionConfig*> all;
  for (std::size_t i = 0; i < config.n_layers(); ++i) {
    if (const AttentionConfig* const attention = attention_of(config, i)) all.push_back(attention);
  }
  return all;
}

std::optional<double> sliding_pattern(const ModelConfig& config) {
  const std::vector<const AttentionConfig*> all = attentions_of(config);
  const auto is_full = [](const AttentionConfig* attention) { return !attention->window; };
  const auto first = std::find_if(all.begin(), all.end(), is_full);
  const auto n = static_cast<std::size_t>(first - all.begin()) + 1;
  for (std::size_t layer = 0; layer < all.size(); ++layer) {
    if (is_full(all[layer]) != ((layer + 1) % n == 0)) return std::nullopt;
  }
  return first == all.end() ? std::nullopt : std::optional(static_cast<double>(n));
}

std::optional<double> dense_first_pattern(const ModelConfig& config) {
  const std::vector<const AttentionConfig*> all = attentions_of(config);
  std::size_t n = 1;
  while (n < all.size() && all[n]->window) ++n;
  for (std::size_t layer = 0; layer < all.size(); ++layer) {
    if (all[layer]->window.has_value() == (layer % n == 0)) return std::nullopt;
  }
  return static_cast<double>(n);
}

}  // namespace vitrine
