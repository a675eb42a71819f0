// Architectures of GGUF files whose layers with windows have sinks. Sources: as in architecture.h.
#include <algorithm>

#include "base/error.h"
#include "checkpoint/gguf/architecture.h"

namespace vitrine {
namespace {

using Kind = GgufKey::Kind;

const GgufKey kWindow{"attention.sliding_window", "window", Kind::size, true};
const GgufKey kLayers{"attention.sliding_window_pattern", "layer_types", Kind::layer_flags, true};

/// A layer without RoPE has base 0.
void complete_granite_swa(Json& config, const StoredTensors&) {
  if (!config.contains("layers_with_rope")) return;
  for (const Json& has : config["layers_with_rope"]) {
    config["layer_rope_theta"].push_back(has == true ? config["rope_theta"] : Json(0));
  }
  config.erase("layers_with_rope");
}

std::vector<GgufKey> mimo2_keys() {
  return {{"attention.head_count_kv", "n_kv_heads", Kind::layer_sizes, true},
          {"attention.key_length", "head_dim", Kind::size, true},
          {"attention.value_length", "v_head_dim", Kind::size, true},
          {"attention.value_scale", "attention_value_scale", Kind::number, false, 1.0},
          {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number, true},
          {"rope.freq_base", "rope_theta", Kind::number},
          {"rope.freq_base_swa", "rope_local_base_freq", Kind::number},
          {"expert_count", "n_experts", Kind::size, true},
          {"expert_used_count", "top_k", Kind::size, true},
          {"expert_feed_forward_length", "d_ff_expert", Kind::size, true},
          {"expert_group_count", "n_group"},
          {"expert_group_used_count", "topk_group"},
          {"expert_gating_func", "expert_gating_func", Kind::size, true},
          kWindow,
          kLayers};
}

/// The K/V heads of the first layer of a kind.
Json heads_of(const Json& config, const Json& all, std::string_view kind) {
  if (!all.is_array()) return all;
  const Json& types = config["layer_types"];
  const auto first = std::find(types.begin(), types.end(), kind);
  return first != types.end() ? all[static_cast<std::size_t>(first - types.begin())] : all[0];
}

/// Both kinds of layers have K/V heads and a RoPE of their own, and the tensors say which layers have experts.
void complete_mimo2(Json& config, const StoredTensors& tensors) {
  const std::size_t n_layers = config["layer_types"].size();
  if (config["expert_gating_func"] != 2) {
    throw Unsupported(tensors.where, "mimo2.expert_gating_func: expected 2 (sigmoid), got {}",
                      config["expert_gating_func"].dump());
  }
  config.erase("expert_gating_func");
  const Json heads = config["num_key_value_heads"];
  if (heads.is_array() && heads.size() != n_layers) {
    throw BadCheckpoint(tensors.where, "mimo2.attention.head_count_kv: expected one for each of {} layers, got {}",
                        n_layers, heads.size());
  }
  config["num_key_value_heads"] = heads_of(config, heads, "full_attention");
  config["swa_num_key_value_heads"] = heads_of(config, heads, "sliding_attention");
  if (!config.contains("attention_value_scale")) config["attention_value_scale"] = 1.0;
  for (const auto& [kind, key] :
       {std::pair("full_attention", "rope_theta"), std::pair("sliding_attention", "rope_local_base_freq")}) {
    config["rope_parameters"][kind] = {{"rope_type", "default"},
                                       {"rope_theta", config.value(key, Json(10000.0))},
                                       {"partial_rotary_factor", config.value("partial_rotary_factor", Json(1.0))}};
  }
  for (const char* key : {"rope_theta", "rope_local_base_freq", "partial_rotary_factor"}) config.erase(key);
  for (std::size_t i = 0; i < n_layers; ++i) {
    const bool is_sparse = tensors.all.contains("blk." + std::to_string(i) + ".ffn_gate_inp.weight");
    config["mlp_layer_types"].push_back(is_sparse ? "sparse" : "dense");
  }
}

}  // namespace

std::vector<GgufArchitecture> sink_architectures() {
  return {
      {.name = "granite_swa",
       .family = "granite_swa",
       .layout = RopeConfig::Layout::interleaved,
       .keys = with_keys(with_keys(rms_and_rope_keys(), granite_keys()),
                         {kWindow, kLayers, {"attention.rope_pattern", "layers_with_rope", Kind::layer_ropes}}),
       .complete = complete_granite_swa},
      {.name = "mimo2",
       .family = "mimo_v2_flash",
       .keys = mimo2_keys(),
       .rotary_fraction = "partial_rotary_factor",
       .complete = complete_mimo2},
  };
}

}  // namespace vitrine
