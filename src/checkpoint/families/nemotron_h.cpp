// Nemotron-H: blocks of one sublayer: Mamba-2, attention without positions, an FFN with ReLU², or experts. Sources:
// NVIDIA 2025; transformers, models/nemotron_h; the published config.json files.
#include <algorithm>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

/// The kind of each block, under today's names.
std::vector<std::string> read_blocks(ConfigReader& c) {
  std::vector<std::string> kinds = c.texts_or_empty("layers_block_type");
  if (kinds.empty()) kinds = c.texts_or_empty("layer_types");
  const std::string pattern = c.text_or("hybrid_override_pattern", "");
  for (const char* key : {"layer_types", "num_hidden_layers"}) c.ignore(key);
  const auto named = [&](char letter) -> std::string {
    switch (letter) {
      case 'M':
        return "linear_attention";
      case '*':
        return "full_attention";
      case '-':
        return "mlp";
      case 'E':
        return "moe";
      default:
        throw Unsupported(c.where(), "hybrid_override_pattern: expected letters M, *, - and E, got \"{}\"", pattern);
    }
  };
  if (kinds.empty()) std::transform(pattern.begin(), pattern.end(), std::back_inserter(kinds), named);
  if (kinds.empty()) kinds = {"linear_attention", "moe", "full_attention", "mlp"};
  if (kinds.size() > static_cast<std::size_t>(kMaxLayers)) {
    throw BadCheckpoint(c.where(), "layers_block_type: expected at most {} layers, got {}", kMaxLayers, kinds.size());
  }
  return kinds;
}

MoeConfig read_nemotron_experts(ConfigReader& c, const ModelConfig& model) {
  c.ignore("moe_shared_expert_overlap");
  MoeConfig moe = read_grouped_experts(
      c, model, {.n_experts = 8, .top_k = 2, .d_ff_key = "moe_intermediate_size", .d_ff = 7688, .n_shared = 1});
  moe.shared = moe.expert;  // one of this width, whatever n_shared_experts says
  moe.shared->d_ff = c.size_or("moe_shared_expert_intermediate_size", 7688);
  moe.shared_gate = false;
  moe.latent = c.optional_size("moe_latent_size");
  moe.latent_bias = moe.expert.bias;
  moe.expert.bias = false;  // mlp_bias is of all but the chosen experts
  return moe;
}

Mamba2Config read_nemotron_mamba(ConfigReader& c, const ModelConfig& model) {
  c.ignore("mamba_proj_bias");
  const auto first_of = [&](const char* old, const char* now) {  // an old name overrules
    if (c.contains(old)) c.ignore(now);
    return c.contains(old) ? old : now;
  };
  const Mamba2Keys keys{.n_heads = "mamba_num_heads",
                        .head_dim = "mamba_head_dim",
                        .n_groups = first_of("mamba_n_groups", "n_groups"),
                        .d_state = "ssm_state_size",
                        .d_conv = first_of("mamba_d_conv", "conv_kernel"),
                        .expand = first_of("mamba_expand", "expand"),
                        .conv_bias = first_of("mamba_conv_bias", "use_conv_bias"),
                        .bias = "use_bias",
                        .activation = "mamba_hidden_act",
                        .groups = 8,
                        .state = 128};
  const std::int64_t inner = c.size_or("mamba_num_heads", 128) * c.size_or("mamba_head_dim", 64);
  Mamba2Config mamba = read_mamba2(c, model, keys, inner);
  // transformers clamps steps from below by time_step_min, and reads time_step_limit nowhere
  const char* const least = first_of("mamba_dt_min", "time_step_min");
  mamba.limits = {static_cast<float>(c.number_or(least, 0.001)), std::numeric_limits<float>::infinity()};
  if (!(mamba.limits.least >= 0))
    throw BadCheckpoint(c.where(), "{}: expected at least 0, got {}", least, mamba.limits.least);
  return mamba;
}

ModelConfig read_nemotron_h(ConfigReader& c) {
  for (const char* key :
       {"hidden_dropout", "mtp_layers_block_type", "mtp_hybrid_override_pattern", "mamba_dt_max", "mamba_dt_limit",
        "mamba_dt_init_floor", "norm_eps", "rms_norm_eps", "rope_theta", "partial_rotary_factor"}) {
    c.ignore(key);  // in published files; transformers reads them nowhere
  }
  c.refuse("sliding_window");
  const std::vector<std::string> kinds = read_blocks(c);
  ModelConfig model = read_mixer_stack(c, false);
  model.head.tied = false;  // transformers ties no weights of this family, whatever tie_word_embeddings says
  model.max_seq_len = c.size_or("max_position_embeddings", 4096);
  AttentionConfig attention;
  attention.n_heads = c.size_or("num_attention_heads", 32);
  attention.n_kv_heads = c.size_or("num_key_value_heads", attention.n_heads);
  expect_multiple(c, "num_attention_heads", attention.n_heads, "num_key_value_heads", attention.n_kv_heads);
  attention.head_dim = c.size_or("head_dim", c.size_or("attention_head_dim", 128));
  attention.score_scale = inverse_sqrt(static_cast<double>(attention.head_dim));
  c.expect(!c.flag_or("attention_bias", false), "attention_bias", "false");
  DenseConfig ffn{c.size_or("intermediate_size", 21504), read_activation(c, "mlp_hidden_act", "relu2"), false,
                  c.flag_or("mlp_bias", false)};
  const Mamba2Config mamba = read_nemotron_mamba(c, model);
  const NormConfig norm = *model.final_norm;
  model.blocks.assign(kinds.size(), BlockConfig{{{ffn, {norm}}}});
  const MoeConfig moe = read_nemotron_experts(c, model);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    SublayerKinds::Config& what = model.blocks[i].sublayers.front().what;
    const std::string& kind = kinds[i];
    if (kind == "linear_attention" || kind == "mamba") what = mamba;
    if (kind == "full_attention" || kind == "attention") what = attention;
    if (kind == "moe") what = moe;
    if (kind == "mlp" || !std::holds_alternative<DenseConfig>(what)) continue;
    throw Unsupported(c.where(), "layers_block_type: expected mamba, attention, mlp or moe, got \"{}\"", kind);
  }
  return model;
}

bool mixes_features(const BlockConfig& block) { return names_of(block.sublayers.front()).norm == 2; }
bool mixes_tokens(const BlockConfig& block) { return !mixes_features(block); }

}  // namespace

Family nemotron_h_family() {
  Family family = mamba_like_family("nemotron_h", "NemotronHForCausalLM", read_nemotron_h);
  family.keys = {{"d_model", "hidden_size"}, {"n_heads", "num_attention_heads"}, {"d_ff", "intermediate_size"}};
  TensorRule first{"{p}layers.{l}.norm", {"blocks.{l}.ln1"}}, second{"{p}layers.{l}.norm", {"blocks.{l}.ln2"}};
  first.applies = mixes_tokens, second.applies = mixes_features;
  add_tensors(family.tensors, {first,
                               second,
                               {"{p}layers.{l}.mixer.q_proj", {"blocks.{l}.attn.wq"}},
                               {"{p}layers.{l}.mixer.k_proj", {"blocks.{l}.attn.wk"}},
                               {"{p}layers.{l}.mixer.v_proj", {"blocks.{l}.attn.wv"}},
                               {"{p}layers.{l}.mixer.o_proj", {"blocks.{l}.attn.wo"}},
                               {"{p}layers.{l}.mixer.up_proj", {"blocks.{l}.mlp.w_up"}},
                               {"{p}layers.{l}.mixer.down_proj", {"blocks.{l}.mlp.w_down"}},
                               {"{p}layers.{l}.mixer.gate", {"blocks.{l}.mlp.router"}},
                               {"{p}layers.{l}.mixer.fc1_latent_proj", {"blocks.{l}.mlp.latent_in"}},
                               {"{p}layers.{l}.mixer.fc2_latent_proj", {"blocks.{l}.mlp.latent_out"}},
                               {"{p}layers.{l}.mixer.experts.{e}.up_proj", {"blocks.{l}.mlp.experts.{e}.w_up"}},
                               {"{p}layers.{l}.mixer.experts.{e}.down_proj", {"blocks.{l}.mlp.experts.{e}.w_down"}},
                               {"{p}layers.{l}.mixer.shared_experts.up_proj", {"blocks.{l}.mlp.shared.w_up"}},
                               {"{p}layers.{l}.mixer.shared_experts.down_proj", {"blocks.{l}.mlp.shared.w_down"}}});
  add_correction(family, "{p}layers.{l}.mixer.gate.e_score_correction_bias");
  return family;
}

}  // namespace vitrine
