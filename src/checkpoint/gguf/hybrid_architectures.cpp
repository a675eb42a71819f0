// Architectures of GGUF files with Mamba and attention: Jamba, Falcon-H1, Granite 4, Bamba and Nemotron-H. Sources: as
// in architecture.h.
#include <algorithm>

#include "base/error.h"
#include "checkpoint/gguf/state_architectures.h"
#include "checkpoint/names.h"

namespace vitrine {
namespace {

using Kind = GgufKey::Kind;

/// The sizes of Mamba-2 under the names of most families with attention.
void complete_mamba2_sizes(Json& config, const StoredTensors& tensors) {
  const auto inner = config["d_inner"].get<std::int64_t>(), heads = config["dt_rank"].get<std::int64_t>();
  if (inner % heads != 0) {
    throw BadCheckpoint(tensors.where, "ssm.inner_size: expected a multiple of {} (ssm.time_step_rank), got {}", heads,
                        inner);
  }
  config["mamba_d_head"] = inner / heads;
  rename_key(config, "dt_rank", "mamba_n_heads");
  rename_key(config, "d_conv", "mamba_d_conv");
  rename_key(config, "d_state", "mamba_d_state");
  rename_key(config, "n_groups", "mamba_n_groups");
  config["mamba_conv_bias"] = holds_in_any_layer(config, tensors, "ssm_conv1d.bias");
}

// Jamba

/// Which layers have experts is given by a period and an offset; the file has just their tensors.
void complete_expert_period(Json& config, const StoredTensors& tensors) {
  const auto n_layers = config["num_hidden_layers"].get<std::int64_t>();
  const auto has_experts = [&](std::int64_t i) {
    return tensors.all.contains(with_layer("blk.{l}.ffn_gate_inp.weight", i));
  };
  std::int64_t offset = 0;
  while (offset < n_layers && !has_experts(offset)) ++offset;
  if (offset == n_layers) {
    config["num_experts"] = 1;
    config.erase("num_experts_per_tok");
    return;
  }
  std::int64_t period = 1;
  while (offset + period < n_layers && !has_experts(offset + period)) ++period;
  period = std::max(period, offset + 1);
  for (std::int64_t i = 0; i < n_layers; ++i) {
    if (has_experts(i) == (i % period == offset)) continue;
    throw Unsupported(tensors.where, "blk.{}.ffn_gate_inp.weight: the layers with experts have no fixed distance", i);
  }
  config["expert_layer_period"] = period;
  config["expert_layer_offset"] = offset;
}

void complete_jamba(Json& config, const StoredTensors& tensors) {
  complete_layers_with_state(config, tensors);
  rename_key(config, "d_conv", "mamba_d_conv");
  rename_key(config, "d_state", "mamba_d_state");
  rename_key(config, "dt_rank", "mamba_dt_rank");
  rename_key(config, "num_local_experts", "num_experts");
  const auto inner = config["d_inner"].get<std::int64_t>(), d_model = config["hidden_size"].get<std::int64_t>();
  if (inner % d_model != 0) {
    throw Unsupported(tensors.where, "jamba.ssm.inner_size: expected a multiple of {} (embedding_length), got {}",
                      d_model, inner);
  }
  config["mamba_expand"] = inner / d_model;
  config.erase("d_inner");
  complete_expert_period(config, tensors);
}

// Falcon-H1

/// The name of the norm before the FFN has no ending.
std::vector<TensorRule> falcon_h1_tensors() {
  std::vector<TensorRule> rules = mamba_tensors();
  rules.push_back(whole_names({{"blk.{l}.ffn_norm", {"blocks.{l}.ln2.weight"}}}).front());
  return rules;
}

/// All multipliers are in the weights.
void complete_falcon_h1(Json& config, const StoredTensors& tensors) {
  complete_mamba2_sizes(config, tensors);
  rename_key(config, "d_inner", "mamba_d_ssm");
  config["mamba_rms_norm"] = holds_in_any_layer(config, tensors, "ssm_norm.weight");
  config["mamba_norm_before_gate"] = false;
}

std::string_view misread_falcon_h1(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    if (find<Mamba2Config>(block)->norm_before_gate) return "the norm before the gate";
  }
  return misread_mixers(config);
}

// Granite 4 and Bamba

std::vector<GgufKey> hybrid_keys(const std::vector<GgufKey>& more) {
  return with_keys(with_keys({kLayersWithHeads,
                              {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number, true},
                              {"rope.freq_base", "rope_theta", Kind::number}},
                             mamba2_keys()),
                   more);
}

std::vector<GgufKey> granite_hybrid_keys() {
  std::vector<GgufKey> keys = hybrid_keys({{"expert_count", "n_experts", Kind::count, true},
                                           {"expert_used_count", "top_k", Kind::count, true},
                                           {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}});
  return with_keys(std::move(keys), granite_keys());
}

void complete_bamba(Json& config, const StoredTensors& tensors) {
  complete_layers_with_state(config, tensors);
  complete_mamba2_sizes(config, tensors);
  set_expansion(config, "mamba_expand");
}

/// The width of a dense FFN is that of its tensors: files of llama.cpp's converter have the config's other number.
void complete_granite_hybrid(Json& config, const StoredTensors& tensors) {
  complete_bamba(config, tensors);
  if (config["num_local_experts"] != 0) return;
  const auto gate = tensors.all.find("blk.0.ffn_gate.weight");
  if (gate != tensors.all.end()) config["shared_intermediate_size"] = gate->second.shape.front();
  config.erase("num_experts_per_tok");
}

std::string_view misread_bamba(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    const auto* const mixer = find<Mamba2Config>(block);
    if (mixer != nullptr && !mixer->norm) return "mixers without a norm";
  }
  return misread_doubled_mixers(config);
}

// Nemotron-H: each block has one sublayer.

bool mixes_features(const BlockConfig& block) {
  return find<DenseConfig>(block) != nullptr || find<MoeConfig>(block) != nullptr;
}
bool mixes_tokens(const BlockConfig& block) { return !mixes_features(block); }

bool has_experts(const ModelConfig& config) {
  return std::any_of(config.blocks.begin(), config.blocks.end(),
                     [](const BlockConfig& block) { return find<MoeConfig>(block) != nullptr; });
}
bool has_no_experts(const ModelConfig& config) { return !has_experts(config); }

std::vector<GgufKey> nemotron_h_keys(const std::vector<GgufKey>& more) {
  return with_keys(with_keys({{"feed_forward_length", "width_of_block", Kind::layer_counts, true},
                              kLayersWithHeads,
                              {"attention.key_length", "head_dim", Kind::size, true},
                              {"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::number, true}},
                             mamba2_keys()),
                   more);
}

std::vector<TensorRule> nemotron_h_tensors() {
  std::vector<TensorRule> rules = mamba_tensors();
  rules.push_back({"blk.{l}.attn_norm", {"blocks.{l}.ln1"}, false, Rows::stacked, mixes_tokens});
  rules.push_back({"blk.{l}.attn_norm", {"blocks.{l}.ln2"}, false, Rows::stacked, mixes_features});
  rules.push_back({"blk.{l}.ffn_latent_down", {"blocks.{l}.mlp.latent_in"}});
  rules.push_back({"blk.{l}.ffn_latent_up", {"blocks.{l}.mlp.latent_out"}});
  return rules;
}

/// The kind of each block follows from its tensors, and from its K/V heads and its width, of which it has one or none.
void complete_nemotron_h(Json& config, const StoredTensors& tensors) {
  const Json widths = config["width_of_block"];
  rename_key(config, "n_layers", "num_hidden_layers");
  rename_key(config, "n_kv_heads", "num_key_value_heads");
  rename_key(config, "max_seq_len", "max_position_embeddings");
  complete_layers_with_state(config, tensors);
  const auto n_layers = config["layer_types"].size();
  if (widths.is_array() && widths.size() != n_layers) {
    throw BadCheckpoint(tensors.where, "feed_forward_length: expected one for each of {} layers, got {}", n_layers,
                        widths.size());
  }
  Json kinds = Json::array();
  for (std::size_t i = 0; i < n_layers; ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const bool is_sparse = tensors.all.contains(with_layer("blk.{l}.ffn_gate_inp.weight", layer));
    const bool is_dense = tensors.all.contains(with_layer("blk.{l}.ffn_up.weight", layer));
    const Json width = widths.is_array() ? widths[i] : widths;
    Json& own = config[is_sparse ? "moe_intermediate_size" : "intermediate_size"];
    if (is_dense && width == 0) {
      throw BadCheckpoint(tensors.where, "feed_forward_length: expected the width of layer {}, got 0", layer);
    }
    if ((is_dense || is_sparse) && !own.is_null() && own != width) {
      throw Unsupported(tensors.where, "feed_forward_length: layers of different sizes are not supported");
    }
    if (is_dense || is_sparse) own = width;
    kinds.push_back(is_sparse ? Json("moe") : is_dense ? Json("mlp") : config["layer_types"][i]);
  }
  config["layers_block_type"] = kinds;
  for (const char* key : {"moe_intermediate_size", "intermediate_size"}) {
    if (config.contains(key) && config[key].is_null()) config.erase(key);
  }
  erase_keys(config, {"layer_types", "width_of_block", "d_ff_expert"});
  complete_mamba2_sizes(config, tensors);
  rename_key(config, "mamba_n_heads", "mamba_num_heads");
  rename_key(config, "mamba_d_head", "mamba_head_dim");
  rename_key(config, "mamba_d_conv", "conv_kernel");
  rename_key(config, "mamba_d_state", "ssm_state_size");
  rename_key(config, "mamba_n_groups", "n_groups");
  rename_key(config, "mamba_conv_bias", "use_conv_bias");
  config["mlp_bias"] = holds_in_any_layer(config, tensors, "ffn_up.bias");
  erase_keys(config, {"d_inner"});
}

void complete_nemotron_h_moe(Json& config, const StoredTensors& tensors) {
  complete_nemotron_h(config, tensors);
  rename_key(config, "n_experts", "n_routed_experts");
  rename_key(config, "top_k", "num_experts_per_tok");
  rename_key(config, "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size");
  config.erase("one_shared_expert");
}

/// In a file with experts, llama.cpp takes every FFN for experts.
std::string_view misread_nemotron_h(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    const auto* const ffn = find<DenseConfig>(block);
    if (ffn != nullptr && has_experts(config)) return "dense layers among those with experts";
    if (ffn != nullptr && ffn->activation != Activation::relu_squared) return "the activation of the feed-forward";
    const auto* const mixer = find<Mamba2Config>(block);
    if (mixer != nullptr && !mixer->norm) return "mixers without a norm";
  }
  return misread_mixers(config);
}

}  // namespace

std::vector<GgufArchitecture> hybrid_architectures() {
  return {
      {.name = "jamba",
       .family = "jamba",
       .keys = with_keys(with_keys({kLayersWithHeads,
                                    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number, true},
                                    {"expert_count", "n_experts", Kind::count, true},
                                    {"expert_used_count", "top_k", Kind::count, true}},
                                   mamba_keys()),
                         {}),
       .tensors = mamba_tensors(),
       .complete = complete_jamba,
       .misread = misread_doubled_mixers},
      {.name = "falcon-h1",
       .family = "falcon_h1",
       .keys = with_keys(rms_and_rope_keys(), mamba2_keys()),
       .folds_factors = true,
       .tensors = falcon_h1_tensors(),
       .complete = complete_falcon_h1,
       .misread = misread_falcon_h1},
      {.name = "granitehybrid",
       .family = "granitemoehybrid",
       .written_for = has_states,
       .layout = RopeConfig::Layout::interleaved,
       .keys = granite_hybrid_keys(),
       .may_lack_rope = true,
       .ignored = {"rope.dimension_count", kRopeFinetuned},
       .tensors = mamba_tensors(),
       .complete = complete_granite_hybrid,
       .misread = misread_bamba},
      {.name = "granitehybrid",
       .family = "bamba",
       .layout = RopeConfig::Layout::interleaved,
       .keys = hybrid_keys({}),
       .chosen_by = kRopeFinetuned,
       .rotary_fraction = "partial_rotary_factor",
       .tensors = mamba_tensors(),
       .complete = complete_bamba,
       .misread = misread_bamba},
      {.name = "nemotron_h",
       .family = "nemotron_h",
       .written_for = has_no_experts,
       .keys = nemotron_h_keys({}),
       .may_lack_rope = true,
       .ignored = {"attention.layer_norm_rms_epsilon", "rope.dimension_count", kRopeFinetuned},
       .tensors = nemotron_h_tensors(),
       .complete = complete_nemotron_h,
       .misread = misread_nemotron_h},
      {.name = "nemotron_h_moe",
       .family = "nemotron_h",
       .written_for = has_experts,
       .keys = nemotron_h_keys({{"expert_count", "n_experts", Kind::size, true},
                                {"expert_used_count", "top_k", Kind::size, true},
                                {"expert_feed_forward_length", "d_ff_expert"},
                                {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
                                {"expert_shared_count", "one_shared_expert"},
                                {"expert_weights_norm", "norm_topk_prob", Kind::flag},
                                {"expert_weights_scale", "routed_scaling_factor", Kind::number},
                                {"expert_group_count", "n_group"},
                                {"expert_group_used_count", "topk_group"},
                                {"moe_latent_size", "moe_latent_size"}}),
       .may_lack_rope = true,
       .ignored = {"attention.layer_norm_rms_epsilon", "rope.dimension_count", kRopeFinetuned},
       .tensors = nemotron_h_tensors(),
       .complete = complete_nemotron_h_moe,
       .misread = misread_nemotron_h},
  };
}

}  // namespace vitrine
