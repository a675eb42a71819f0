// Reads mixers with a state of published configs, and their tensors.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

std::vector<bool> read_state_layers(ConfigReader& c, std::size_t n_layers,
                                    const std::function<bool(std::size_t)>& otherwise, std::string_view state) {
  std::string_view key = "layer_types";
  std::vector<std::string> types = c.texts_or_empty(key);
  if (types.empty()) types = c.texts_or_empty(key = "layers_block_type");
  c.ignore("layers_block_type");
  std::vector<bool> has_state;
  for (std::size_t i = 0; types.empty() && i < n_layers; ++i) has_state.push_back(otherwise(i));
  if (!types.empty() && types.size() != n_layers) {
    throw BadCheckpoint(c.where(), "{}: expected one for each of {} layers, got {}", key, n_layers, types.size());
  }
  for (const std::string& type : types) {
    const bool is_state = type == state || type == "linear_attention" || type == "mamba";
    if (!is_state && type != "full_attention" && type != "attention") {
      throw Unsupported(c.where(), "{}: expected full_attention or {}, got \"{}\"", key, state, type);
    }
    has_state.push_back(is_state);
  }
  return has_state;
}

void put_mixers(ModelConfig& model, const SublayerKinds::Config& mixer, const std::vector<bool>& has_state) {
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    if (has_state[i]) model.blocks[i].sublayers.front().what = mixer;
  }
}

ModelConfig read_mixer_stack(ConfigReader& c, bool tied) {
  ModelConfig model;
  model.d_model = c.size("hidden_size");
  model.vocab_size = c.size("vocab_size");
  model.max_seq_len = kNoContextLimit;
  model.head.tied = c.flag_or("tie_word_embeddings", tied);
  NormConfig norm{NormConfig::Kind::rms, 1e-5f, 0.0f, false};
  norm.eps = read_eps(c, "layer_norm_epsilon", 1e-5);
  model.final_norm = norm;
  const BlockConfig block{{{ConvConfig(), {norm}}}};  // its reader replaces the mixer
  model.blocks.assign(static_cast<std::size_t>(c.size_or("num_hidden_layers", 32)), block);
  if (model.blocks.size() > static_cast<std::size_t>(kMaxLayers)) {
    throw BadCheckpoint(c.where(), "num_hidden_layers: expected at most {}, got {}", kMaxLayers, model.blocks.size());
  }
  return model;
}

void ignore_mamba_keys(ConfigReader& c) {
  for (const char* key : {"rescale_prenorm_residual",
                          "residual_in_fp32",
                          "time_step_floor",
                          "time_step_init_scheme",
                          "time_step_max",
                          "time_step_min",
                          "time_step_scale",
                          "use_associative_scan",
                          "use_falcon_mambapy",
                          "use_mamba_kernels",
                          "use_mambapy",
                          "chunk_size",
                          "mamba_chunk_size",
                          "mamba_ssm_cache_dtype",
                          "num_logits_to_keep",
                          "time_step_rank",
                          "intermediate_size",
                          "d_inner",
                          "d_model",
                          "n_layer",
                          "fused_add_norm",
                          "rms_norm",
                          "ssm_cfg",
                          "pad_vocab_size_multiple",
                          "norm_before_gate",
                          "z_loss_coefficient"}) {
    c.ignore(key);
  }
}

MambaConfig read_mamba(ConfigReader& c, const ModelConfig& model) {
  ignore_mamba_keys(c);
  MambaConfig mamba;
  const double expand = c.positive_or("expand", 2);  // intermediate_size overrules it; published files contradict
  mamba.channels =
      c.size_or("intermediate_size", static_cast<std::int64_t>(expand * static_cast<double>(model.d_model)));
  mamba.d_state = c.size_or("state_size", 16);
  mamba.width = c.size_or("conv_kernel", 4);
  mamba.dt_rank = c.size_or_auto("time_step_rank", (model.d_model + 15) / 16);
  mamba.activation = read_activation(c, "hidden_act", "silu");
  mamba.conv_bias = c.flag_or("use_conv_bias", true);
  mamba.bias = c.flag_or("use_bias", false);
  return mamba;
}

Mamba2Config read_mamba2(ConfigReader& c, const ModelConfig& model, const Mamba2Keys& keys,
                         std::optional<std::int64_t> inner) {
  ignore_mamba_keys(c);
  Mamba2Config mamba;
  const double expand = c.positive_or(keys.expand, 2);
  const std::int64_t width = inner.value_or(static_cast<std::int64_t>(expand * static_cast<double>(model.d_model)));
  mamba.n_heads = c.size_or(keys.n_heads, keys.heads);
  mamba.head_dim = c.size_or_auto(keys.head_dim, std::max<std::int64_t>(1, width / mamba.n_heads));
  if (mamba.inner() != width) {
    const std::string expected = inner ? std::string("mamba_d_ssm") : std::string(keys.expand) + " · hidden_size";
    throw BadCheckpoint(c.where(), "{} × {}: expected {} ({}), got {}", keys.n_heads, keys.head_dim, expected, width,
                        mamba.inner());
  }
  mamba.n_groups = c.size_or(keys.n_groups, keys.groups);
  expect_multiple(c, keys.n_heads, mamba.n_heads, keys.n_groups, mamba.n_groups);
  mamba.d_state = c.size_or(keys.d_state, keys.state);
  mamba.width = c.size_or(keys.d_conv, 4);
  mamba.activation = read_activation(c, keys.activation, "silu");
  mamba.conv_bias = c.flag_or(keys.conv_bias, true);
  mamba.in_bias = mamba.out_bias = c.flag_or(keys.bias, false);
  const auto [least, most] = c.range_or("time_step_limit", {0, std::numeric_limits<double>::infinity()});
  mamba.limits = {static_cast<float>(least), static_cast<float>(most)};
  mamba.norm = *model.final_norm;
  return mamba;
}

DeltaNetConfig read_delta_net(ConfigReader& c, const DeltaNetConfig& defaults) {
  DeltaNetConfig net = defaults;
  net.n_key_heads = c.size_or("linear_num_key_heads", defaults.n_key_heads);
  net.n_heads = c.size_or("linear_num_value_heads", defaults.n_heads);
  expect_multiple(c, "linear_num_value_heads", net.n_heads, "linear_num_key_heads", net.n_key_heads);
  net.key_dim = c.size_or("linear_key_head_dim", defaults.key_dim);
  net.value_dim = c.size_or("linear_value_head_dim", defaults.value_dim);
  net.width = c.size_or("linear_conv_kernel_dim", 4);
  net.activation = read_activation(c, "hidden_act", "silu");
  return net;
}

TensorRule convolution_rule(std::string_view stored, std::string_view ours) {
  TensorRule rule{stored, {ours}};
  rule.is_convolution = true;
  return rule;
}

std::string_view part_name(std::string_view slot, std::string_view part) {
  static std::set<std::string> names;  // tables of tensors hold views of names
  return *names.insert("{p}layers.{l}." + std::string(slot) + "." + std::string(part)).first;
}

namespace {

/// Tensors without .weight and .bias.
void add_whole_names(Family& family, std::string_view slot,
                     std::initializer_list<std::pair<std::string_view, std::string_view>> names) {
  for (const auto& [part, ours] : names) {
    TensorRule rule{part_name(slot, part), {ours}};
    rule.has_ending = false;
    family.tensors.push_back(rule);
  }
}

}  // namespace

void add_mamba(Family& family, std::string_view slot) {
  const auto name = [&](std::string_view part) { return part_name(slot, part); };
  add_tensors(family.tensors, {{name("in_proj"), {"blocks.{l}.mixer.w_in"}},
                               convolution_rule(name("conv1d"), "blocks.{l}.mixer.conv"),
                               {name("x_proj"), {"blocks.{l}.mixer.w_x"}},
                               {name("dt_proj"), {"blocks.{l}.mixer.w_dt"}},
                               {name("norm"), {"blocks.{l}.mixer.norm"}},
                               {name("dt_layernorm"), {"blocks.{l}.mixer.dt_norm"}},
                               {name("b_layernorm"), {"blocks.{l}.mixer.b_norm"}},
                               {name("c_layernorm"), {"blocks.{l}.mixer.c_norm"}},
                               {name("out_proj"), {"blocks.{l}.mixer.w_out"}}});
  add_whole_names(
      family, slot,
      {{"A_log", "blocks.{l}.mixer.a_log"}, {"D", "blocks.{l}.mixer.skip"}, {"dt_bias", "blocks.{l}.mixer.dt_bias"}});
}

void add_delta_net(Family& family, std::string_view slot) {
  add_whole_names(family, slot,
                  {{"A_log", "blocks.{l}.linear_attn.a_log"}, {"dt_bias", "blocks.{l}.linear_attn.dt_bias"}});
}

Family mamba_like_family(std::string_view model_type, std::string_view architecture,
                         std::function<ModelConfig(ConfigReader&)> read_config) {
  Family family;
  family.model_type = model_type;
  family.architecture = architecture;
  family.read_config = std::move(read_config);
  family.prefixes = {"backbone.", "model.", ""};
  family.embedding = "{p}embeddings.weight";
  family.renames = {{"backbone.embedding.", "backbone.embeddings."}};
  family.tensors = {{"{p}embeddings", {"embed"}},
                    {"{p}layers.{l}.norm", {"blocks.{l}.ln1"}},
                    {"{p}norm_f", {"ln_final"}},
                    {"lm_head", {"unembed"}}};
  family.keys = {{"d_model", "hidden_size"},
                 {"n_layers", "num_hidden_layers"},
                 {"d_state", "state_size"},
                 {"d_conv", "conv_kernel"},
                 {"dt_rank", "time_step_rank"}};
  add_mamba(family, "mixer");
  return family;
}

void add_gated_queries(Family& family) {
  add_tensors(
      family.tensors,
      {{"{p}layers.{l}.self_attn.q_proj", {"blocks.{l}.attn.wq", "blocks.{l}.attn.w_gate"}, kAsIs, Rows::by_head}});
}

ModelConfig read_qwen_hybrid(ConfigReader& c, DeltaNetConfig::Projections projections, std::string_view d_ff_key) {
  DecoderKeys keys{.max_seq_len = 32768, .d_ff_key = d_ff_key, .head_dim = 256};
  keys.norm.weight_offset = 1.0f;
  keys.rope.fraction_key = "partial_rotary_factor";
  keys.rope.fraction = 0.25;
  keys.rope.has_sections = true;
  ModelConfig model = read_decoder(c, keys);
  read_attention_bias(c, model);
  c.expect(c.flag_or("attn_output_gate", true), "attn_output_gate", "true");
  for (const char* key :
       {"output_gate_type", "mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"}) {
    c.ignore(key);  // in published files; transformers reads them nowhere
  }
  norm_q_and_k(model, QkNormConfig::Over::head);
  for (AttentionConfig* attention : every<AttentionConfig>(model.blocks)) {
    attention->out_gate = true;
    attention->gate_bias = attention->qkv_bias;  // queries and gate are one projection
  }
  DeltaNetConfig net;
  net.n_heads = 32, net.n_key_heads = 16, net.key_dim = net.value_dim = 128;
  net.projections = projections;
  net.norm = {NormConfig::Kind::rms, model.final_norm->eps, 0.0f, false};
  const std::int64_t interval = c.size_or("full_attention_interval", 4);
  const auto otherwise = [interval](std::size_t i) { return (static_cast<std::int64_t>(i) + 1) % interval != 0; };
  put_mixers(model, read_delta_net(c, net), read_state_layers(c, model.blocks.size(), otherwise));
  return model;
}

void add_qwen3_5_delta_net(Family& family) {
  add_delta_net(family, "linear_attn");
  add_tensors(family.tensors, {{"{p}layers.{l}.linear_attn.in_proj_qkv", {"blocks.{l}.linear_attn.w_qkv"}},
                               {"{p}layers.{l}.linear_attn.in_proj_z", {"blocks.{l}.linear_attn.w_z"}},
                               {"{p}layers.{l}.linear_attn.in_proj_a", {"blocks.{l}.linear_attn.w_a"}},
                               {"{p}layers.{l}.linear_attn.in_proj_b", {"blocks.{l}.linear_attn.w_b"}},
                               convolution_rule("{p}layers.{l}.linear_attn.conv1d", "blocks.{l}.linear_attn.conv"),
                               {"{p}layers.{l}.linear_attn.norm", {"blocks.{l}.linear_attn.norm"}},
                               {"{p}layers.{l}.linear_attn.out_proj", {"blocks.{l}.linear_attn.wo"}}});
}

void add_qwen_shared_expert(Family& family) {
  add_tensors(family.tensors, {{"{p}layers.{l}.mlp.shared_expert.gate_proj", {"blocks.{l}.mlp.shared.w_gate"}},
                               {"{p}layers.{l}.mlp.shared_expert.up_proj", {"blocks.{l}.mlp.shared.w_up"}},
                               {"{p}layers.{l}.mlp.shared_expert.down_proj", {"blocks.{l}.mlp.shared.w_down"}},
                               {"{p}layers.{l}.mlp.shared_expert_gate", {"blocks.{l}.mlp.shared_gate"}}});
}

void add_apart_projections(Family& family, std::string_view slot) {
  const auto name = [&](std::string_view part) { return part_name(slot, part); };
  add_tensors(family.tensors, {{name("q_proj"), {"blocks.{l}.linear_attn.wq"}},
                               {name("k_proj"), {"blocks.{l}.linear_attn.wk"}},
                               {name("v_proj"), {"blocks.{l}.linear_attn.wv"}},
                               {name("b_proj"), {"blocks.{l}.linear_attn.w_b"}},
                               convolution_rule(name("q_conv1d"), "blocks.{l}.linear_attn.q_conv"),
                               convolution_rule(name("k_conv1d"), "blocks.{l}.linear_attn.k_conv"),
                               convolution_rule(name("v_conv1d"), "blocks.{l}.linear_attn.v_conv"),
                               {name("o_norm"), {"blocks.{l}.linear_attn.norm"}},
                               {name("o_proj"), {"blocks.{l}.linear_attn.wo"}}});
}

ModelConfig read_lfm2_decoder(ConfigReader& c) {
  for (const char* key : {"block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale",
                          "block_use_swiglu", "block_use_xavier_init", "conv_dim", "conv_dim_out",
                          "conv_use_xavier_init", "num_heads", "theta", "use_pos_enc"}) {
    c.ignore(key);  // in published files, beside the keys that count
  }
  DecoderKeys keys{.max_seq_len = 128000, .tied = true, .eps_key = "norm_eps"};
  keys.norm.eps = 1e-5f;
  keys.rope.theta = 1000000;
  if (c.has("block_ff_dim")) keys.d_ff_key = "block_ff_dim", c.ignore("intermediate_size");
  ModelConfig model = read_decoder(c, keys);
  model.head.tied = c.flag_or("tie_embedding", model.head.tied);
  norm_q_and_k(model, QkNormConfig::Over::head);
  ConvConfig conv;
  conv.width = c.size_or("conv_L_cache", 3);
  conv.channels = model.d_model;
  conv.bias = c.flag_or("conv_bias", false);
  const std::vector<std::int64_t> full = c.sizes_or_empty("full_attn_idxs");
  const bool all = !c.has("full_attn_idxs");
  const auto otherwise = [&](std::size_t i) {
    return !all && std::find(full.begin(), full.end(), static_cast<std::int64_t>(i)) == full.end();
  };
  put_mixers(model, conv, read_state_layers(c, model.blocks.size(), otherwise, "conv"));
  return model;
}

void add_lfm2(Family& family) {
  add_tensors(family.tensors, {{"{p}layers.{l}.operator_norm", {"blocks.{l}.ln1"}},
                               {"{p}layers.{l}.ffn_norm", {"blocks.{l}.ln2"}},
                               {"{p}embedding_norm", {"ln_final"}},
                               {"{p}layers.{l}.self_attn.q_layernorm", {"blocks.{l}.attn.q_norm"}},
                               {"{p}layers.{l}.self_attn.k_layernorm", {"blocks.{l}.attn.k_norm"}},
                               {"{p}layers.{l}.self_attn.out_proj", {"blocks.{l}.attn.wo"}},
                               {"{p}layers.{l}.conv.in_proj", {"blocks.{l}.conv.w_in"}},
                               convolution_rule("{p}layers.{l}.conv.conv", "blocks.{l}.conv.conv"),
                               {"{p}layers.{l}.conv.out_proj", {"blocks.{l}.conv.w_out"}},
                               {"{p}layers.{l}.feed_forward.w1", {"blocks.{l}.mlp.w_gate"}},
                               {"{p}layers.{l}.feed_forward.w3", {"blocks.{l}.mlp.w_up"}},
                               {"{p}layers.{l}.feed_forward.w2", {"blocks.{l}.mlp.w_down"}}});
  family.keys.push_back({"d_conv", "conv_L_cache"});
}

}  // namespace vitrine
