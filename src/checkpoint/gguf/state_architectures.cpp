// Architectures of GGUF files of Mamba, Mamba-2 and LFM2, and what all architectures with states share.
// Sources: as in architecture.h.
#include <algorithm>

#include "base/error.h"
#include "checkpoint/gguf/state_architectures.h"
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/names.h"

namespace vitrine {

void erase_keys(Json& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) config.erase(key);
}

void rename_key(Json& config, const char* from, const char* to) {
  if (!config.contains(from)) return;
  config[to] = config[from];
  config.erase(from);
}

std::vector<TensorRule> whole_names(std::vector<TensorRule> rules) {
  for (TensorRule& rule : rules) rule.has_ending = false;
  return rules;
}

std::int64_t count_layers(const Json& config, const StoredTensors& tensors) {
  const auto n_layers = config["num_hidden_layers"].get<std::int64_t>();
  if (n_layers <= kMaxLayers) return n_layers;
  throw BadCheckpoint(tensors.where, "block_count: expected at most {}, got {}", kMaxLayers, n_layers);
}

void complete_layers_with_state(Json& config, const StoredTensors& tensors) {
  const Json counts = config["num_key_value_heads"];
  const auto n_layers = static_cast<std::size_t>(count_layers(config, tensors));
  if (counts.is_array() && counts.size() != n_layers) {
    throw BadCheckpoint(tensors.where, "attention.head_count_kv: expected one for each of {} layers, got {}", n_layers,
                        counts.size());
  }
  std::int64_t n_kv_heads = 0;
  Json types = Json::array();
  for (std::size_t i = 0; i < n_layers; ++i) {
    const auto own = (counts.is_array() ? counts[i] : counts).get<std::int64_t>();
    if (own != 0 && n_kv_heads != 0 && own != n_kv_heads) {
      throw Unsupported(tensors.where, "attention.head_count_kv: layers of different sizes are not supported");
    }
    n_kv_heads = std::max(n_kv_heads, own);
    types.push_back(own == 0 ? "linear_attention" : "full_attention");
  }
  config["layer_types"] = types;
  if (n_kv_heads == 0) {
    config.erase("num_key_value_heads");
  } else {
    config["num_key_value_heads"] = n_kv_heads;
  }
}

bool holds_in_any_layer(const Json& config, const StoredTensors& tensors, std::string_view end) {
  for (std::int64_t i = 0; i < count_layers(config, tensors); ++i) {
    if (tensors.all.contains(with_layer("blk.{l}.", i) + std::string(end))) return true;
  }
  return false;
}

std::vector<GgufKey> mamba_keys() {
  return {{"ssm.conv_kernel", "d_conv", GgufKey::Kind::size, true},
          {"ssm.inner_size", "d_inner", GgufKey::Kind::size, true},
          {"ssm.state_size", "d_state", GgufKey::Kind::size, true},
          {"ssm.time_step_rank", "dt_rank", GgufKey::Kind::size, true}};
}

std::vector<GgufKey> mamba2_keys() {
  return with_keys(mamba_keys(), {{"ssm.group_count", "n_groups", GgufKey::Kind::size, true}});
}

std::vector<TensorRule> mamba_tensors() {
  std::vector<TensorRule> rules = whole_names({{"blk.{l}.ssm_a", {"blocks.{l}.mixer.a_log"}},
                                               {"blk.{l}.ssm_d", {"blocks.{l}.mixer.skip"}},
                                               {"blk.{l}.ssm_dt.bias", {"blocks.{l}.mixer.dt_bias"}}});
  for (const TensorRule& rule : std::initializer_list<TensorRule>{{"blk.{l}.ssm_in", {"blocks.{l}.mixer.w_in"}},
                                                                  {"blk.{l}.ssm_conv1d", {"blocks.{l}.mixer.conv"}},
                                                                  {"blk.{l}.ssm_x", {"blocks.{l}.mixer.w_x"}},
                                                                  {"blk.{l}.ssm_dt", {"blocks.{l}.mixer.w_dt"}},
                                                                  {"blk.{l}.ssm_dt_norm", {"blocks.{l}.mixer.dt_norm"}},
                                                                  {"blk.{l}.ssm_b_norm", {"blocks.{l}.mixer.b_norm"}},
                                                                  {"blk.{l}.ssm_c_norm", {"blocks.{l}.mixer.c_norm"}},
                                                                  {"blk.{l}.ssm_norm", {"blocks.{l}.mixer.norm"}},
                                                                  {"blk.{l}.ssm_out", {"blocks.{l}.mixer.w_out"}}}) {
    rules.push_back(rule);
  }
  return rules;
}

void set_expansion(Json& config, const char* key) {
  config[key] = (config["d_inner"].get<double>() + 0.5) / config["hidden_size"].get<double>();
  config.erase("d_inner");
}

bool has_states(const ModelConfig& config) {
  return std::any_of(config.blocks.begin(), config.blocks.end(), [](const BlockConfig& block) {
    return find<AttentionConfig>(block) == nullptr && find<LatentAttentionConfig>(block) == nullptr;
  });
}

bool has_no_states(const ModelConfig& config) { return !has_states(config); }

std::string_view misread_mixers(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    const auto* const first = find<MambaConfig>(block);
    if (first != nullptr && first->bias) return "the biases of projections";
    if (first != nullptr && !first->conv_bias) return "convolutions without a bias";
    const auto* const second = find<Mamba2Config>(block);
    if (second != nullptr && (second->in_bias || second->out_bias)) return "the biases of projections";
  }
  return {};
}

std::string_view misread_doubled_mixers(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    const auto* const first = find<MambaConfig>(block);
    const auto* const second = find<Mamba2Config>(block);
    const std::int64_t channels = first != nullptr ? first->channels : second != nullptr ? second->inner() : 0;
    if (channels != 0 && channels != 2 * config.d_model) return "an expansion other than 2";
  }
  return misread_mixers(config);
}

namespace {

using Kind = GgufKey::Kind;

// Short convolutions

std::vector<GgufKey> lfm2_keys() {
  return with_keys({kLayersWithHeads}, {{"attention.key_length", "head_dim"},
                                        {"attention.layer_norm_rms_epsilon", "norm_eps", Kind::number, true},
                                        {"rope.freq_base", "rope_theta", Kind::number},
                                        {"shortconv.l_cache", "d_conv", Kind::size, true}});
}

/// The last norm is called that of the embedding.
std::vector<TensorRule> lfm2_tensors() {
  return {{"token_embd_norm", {"ln_final"}},
          {"blk.{l}.shortconv.in_proj", {"blocks.{l}.conv.w_in"}},
          {"blk.{l}.shortconv.conv", {"blocks.{l}.conv.conv"}},
          {"blk.{l}.shortconv.out_proj", {"blocks.{l}.conv.w_out"}}};
}

void complete_lfm2(Json& config, const StoredTensors& tensors) {
  complete_layers_with_state(config, tensors);
  rename_key(config, "d_conv", "conv_L_cache");
  config["block_auto_adjust_ff_dim"] = false;
}

void complete_lfm2_moe(Json& config, const StoredTensors& tensors) {
  complete_layers_with_state(config, tensors);
  rename_key(config, "d_conv", "conv_L_cache");
  if (config.value("expert_gating_func", 2) != 2) {
    throw Unsupported(tensors.where, "lfm2moe.expert_gating_func: expected 2 (sigmoid), got {}",
                      config["expert_gating_func"].dump());
  }
  config.erase("expert_gating_func");
  if (!config.contains("num_dense_layers")) config["num_dense_layers"] = 0;
}

std::string_view misread_lfm2(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    const auto* const conv = find<ConvConfig>(block);
    if (conv != nullptr && conv->bias) return "the biases of short convolutions";
    const auto* const moe = find<MoeConfig>(block);
    if (moe == nullptr) continue;
    if (!moe->router.correction) return "routers without a bias";
    if (moe->router.scale != 1) return "the factor of the experts' sum";
  }
  return {};
}

// Mamba

/// Models of mixers alone have no heads, no FFN and no longest text.
std::vector<GgufKey> mixer_keys(const std::vector<GgufKey>& more) {
  return with_keys({{"context_length", "context_or_most", Kind::size, true},
                    {"feed_forward_length", "d_ff", Kind::count, true},
                    {"attention.head_count", "n_heads", Kind::count, true},
                    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", Kind::number, true}},
                   more);
}

void complete_mamba(Json& config, const StoredTensors&) {
  erase_keys(config, {"context_or_most", "d_ff", "n_heads", "dt_b_c_rms"});
  set_expansion(config, "expand");
}

void complete_falcon_mamba(Json& config, const StoredTensors& tensors) {
  complete_mamba(config, tensors);
  config["mixer_rms_eps"] = config["layer_norm_epsilon"];
}

void complete_mamba2(Json& config, const StoredTensors&) {
  erase_keys(config, {"context_or_most", "d_ff", "n_heads"});
  rename_key(config, "time_step_rank", "num_heads");
  config["head_dim"] = config["d_inner"].get<std::int64_t>() / config["num_heads"].get<std::int64_t>();
  set_expansion(config, "expand");
}

std::string_view misread_mamba2(const ModelConfig& config) {
  for (const BlockConfig& block : config.blocks) {
    if (!find<Mamba2Config>(block)->conv_bias) return "convolutions without a bias";
  }
  return misread_mixers(config);
}

}  // namespace

std::vector<GgufArchitecture> state_architectures() {
  const GgufKey dt_b_c{"ssm.dt_b_c_rms", "dt_b_c_rms", Kind::flag};
  return {
      {.name = "mamba",
       .family = "mamba",
       .keys = mixer_keys(with_keys(mamba_keys(), {dt_b_c})),
       .tensors = mamba_tensors(),
       .complete = complete_mamba,
       .misread = misread_doubled_mixers},
      {.name = "mamba",
       .family = "falcon_mamba",
       .keys = mixer_keys(with_keys(mamba_keys(), {dt_b_c})),
       .chosen_by = "ssm.dt_b_c_rms",
       .tensors = mamba_tensors(),
       .complete = complete_falcon_mamba,
       .misread = misread_doubled_mixers},
      {.name = "mamba2",
       .family = "mamba2",
       .keys = mixer_keys(mamba2_keys()),
       .tensors = mamba_tensors(),
       .complete = complete_mamba2,
       .misread = misread_mamba2},
      {.name = "lfm2",
       .family = "lfm2",
       .keys = lfm2_keys(),
       .tensors = lfm2_tensors(),
       .complete = complete_lfm2,
       .misread = misread_lfm2},
      {.name = "lfm2moe",
       .family = "lfm2_moe",
       .keys = with_keys(lfm2_keys(), {{"expert_count", "n_experts", Kind::size, true},
                                       {"expert_used_count", "top_k", Kind::size, true},
                                       {"expert_feed_forward_length", "d_ff_expert", Kind::size, true},
                                       {"leading_dense_block_count", "num_dense_layers", Kind::count},
                                       {"expert_gating_func", "expert_gating_func"}}),
       .tensors = lfm2_tensors(),
       .complete = complete_lfm2_moe,
       .misread = misread_lfm2},
  };
}

}  // namespace vitrine
