#include "checkpoint/hugging_face/family_parts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

std::string Family::key_of(std::string_view word) const {
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key& known) { return known.ours == word; });
  return std::string(key != keys.end() ? key->theirs : word);
}

const Family& family_named(std::string_view model_type) {
  for (const Family& family : all_families()) {
    if (family.model_type == model_type) return family;
  }
  throw InternalError(model_type, "no family has this name");
}

Family decoder_family(std::string_view model_type, std::string_view architecture,
                      std::function<ModelConfig(ConfigReader&)> read_config) {
  Family family;
  family.model_type = model_type;
  family.architecture = architecture;
  family.read_config = std::move(read_config);
  family.prefixes = {"model.", "", "transformer."};
  family.embedding = "{p}embed_tokens.weight";
  family.tensors = {
      {"{p}embed_tokens", {"embed"}},
      {"{p}layers.{l}.input_layernorm", {"blocks.{l}.ln1"}},
      {"{p}layers.{l}.post_attention_layernorm", {"blocks.{l}.ln2"}},
      {"{p}layers.{l}.self_attn.q_proj", {"blocks.{l}.attn.wq"}},
      {"{p}layers.{l}.self_attn.k_proj", {"blocks.{l}.attn.wk"}},
      {"{p}layers.{l}.self_attn.v_proj", {"blocks.{l}.attn.wv"}},
      {"{p}layers.{l}.self_attn.o_proj", {"blocks.{l}.attn.wo"}},
      {"{p}layers.{l}.mlp.gate_proj", {"blocks.{l}.mlp.w_gate"}},
      {"{p}layers.{l}.mlp.up_proj", {"blocks.{l}.mlp.w_up"}},
      {"{p}layers.{l}.mlp.down_proj", {"blocks.{l}.mlp.w_down"}},
      {"{p}norm", {"ln_final"}},
      {"lm_head", {"unembed"}},
      {"{p}layers.{l}.self_attn.q_norm", {"blocks.{l}.attn.q_norm"}},
      {"{p}layers.{l}.self_attn.k_norm", {"blocks.{l}.attn.k_norm"}},
  };
  family.ignored = {"{p}layers.{l}.self_attn.rotary_emb.inv_freq", "{p}rotary_emb.inv_freq"};  // of early libraries
  family.tasks = decoder_classes();
  family.keys = {{"d_model", "hidden_size"},         {"n_layers", "num_hidden_layers"},
                 {"n_heads", "num_attention_heads"}, {"n_kv_heads", "num_key_value_heads"},
                 {"d_ff", "intermediate_size"},      {"max_seq_len", "max_position_embeddings"},
                 {"window", "sliding_window"}};
  return family;
}

Family gpt2_like_family(std::string_view model_type, std::string_view architecture,
                        std::function<ModelConfig(ConfigReader&)> read_config) {
  Family family;
  family.model_type = model_type;
  family.architecture = architecture;
  family.read_config = std::move(read_config);
  family.prefixes = {"transformer.", ""};
  family.embedding = "{p}wte.weight";
  family.tensors = {
      {"{p}wte", {"embed"}},
      {"{p}wpe", {"pos_embed"}},
      {"{p}h.{l}.ln_1", {"blocks.{l}.ln1"}},
      {"{p}h.{l}.attn.c_proj", {"blocks.{l}.attn.wo"}},
      {"{p}h.{l}.ln_2", {"blocks.{l}.ln2"}},
      {"{p}h.{l}.mlp.c_fc", {"blocks.{l}.mlp.w_up"}},
      {"{p}h.{l}.mlp.c_proj", {"blocks.{l}.mlp.w_down"}},
      {"{p}ln_f", {"ln_final"}},
      {"lm_head", {"unembed"}},
  };
  family.ignored = {"{p}h.{l}.attn.bias", "{p}h.{l}.attn.masked_bias"};  // the causal mask
  family.keys = {{"d_model", "n_embd"},
                 {"n_layers", "n_layer"},
                 {"n_heads", "n_head"},
                 {"d_ff", "n_inner"},
                 {"max_seq_len", "n_positions"}};
  return family;
}

Family gptj_like_family(std::string_view model_type, std::string_view architecture,
                        std::function<ModelConfig(ConfigReader&)> read_config) {
  Family family = gpt2_like_family(model_type, architecture, std::move(read_config));
  add_tensors(family.tensors, {{"{p}h.{l}.attn.out_proj", {"blocks.{l}.attn.wo"}},
                               {"{p}h.{l}.mlp.fc_in", {"blocks.{l}.mlp.w_up"}},
                               {"{p}h.{l}.mlp.fc_out", {"blocks.{l}.mlp.w_down"}}});
  return family;
}

void add_tensors(std::vector<TensorRule>& table, const std::vector<TensorRule>& rules) {
  for (const TensorRule& rule : rules) {
    std::erase_if(table, [&](const TensorRule& old) {
      return std::find_first_of(old.ours.begin(), old.ours.end(), rule.ours.begin(), rule.ours.end()) != old.ours.end();
    });
  }
  table.insert(table.end(), rules.begin(), rules.end());
}

void add_four_norms(Family& family) {
  add_tensors(family.tensors, {{"{p}layers.{l}.post_attention_layernorm", {"blocks.{l}.ln1_post"}},
                               {"{p}layers.{l}.pre_feedforward_layernorm", {"blocks.{l}.ln2"}},
                               {"{p}layers.{l}.post_feedforward_layernorm", {"blocks.{l}.ln2_post"}}});
}

void add_gate_up(Family& family) {
  add_tensors(family.tensors, {{"{p}layers.{l}.mlp.gate_up_proj", {"blocks.{l}.mlp.w_gate", "blocks.{l}.mlp.w_up"}}});
}

void add_norms_after(Family& family) {
  add_tensors(family.tensors, {{"{p}layers.{l}.post_attention_layernorm", {"blocks.{l}.ln1_post"}},
                               {"{p}layers.{l}.post_feedforward_layernorm", {"blocks.{l}.ln2_post"}}});
}

void add_experts(Family& family, std::string_view n_experts_key, std::string_view top_k_key) {
  add_tensors(family.tensors, {{"{p}layers.{l}.mlp.gate", {"blocks.{l}.mlp.router"}},
                               {"{p}layers.{l}.mlp.experts.{e}.gate_proj", {"blocks.{l}.mlp.experts.{e}.w_gate"}},
                               {"{p}layers.{l}.mlp.experts.{e}.up_proj", {"blocks.{l}.mlp.experts.{e}.w_up"}},
                               {"{p}layers.{l}.mlp.experts.{e}.down_proj", {"blocks.{l}.mlp.experts.{e}.w_down"}}});
  family.keys.push_back({"n_experts", n_experts_key});
  family.keys.push_back({"top_k", top_k_key});
  family.keys.push_back({"d_ff_expert", "moe_intermediate_size"});
}

void add_shared_experts(Family& family) {
  add_tensors(family.tensors, {{"{p}layers.{l}.mlp.shared_experts.gate_proj", {"blocks.{l}.mlp.shared.w_gate"}},
                               {"{p}layers.{l}.mlp.shared_experts.up_proj", {"blocks.{l}.mlp.shared.w_up"}},
                               {"{p}layers.{l}.mlp.shared_experts.down_proj", {"blocks.{l}.mlp.shared.w_down"}}});
}

void add_correction(Family& family, std::string_view stored) {
  TensorRule rule{stored, {"blocks.{l}.mlp.correction.bias"}};
  rule.has_ending = false;
  add_tensors(family.tensors, {rule});
}

ModelConfig read_decoder(ConfigReader& c, const DecoderKeys& keys) {
  ModelConfig model;
  model.d_model = c.size(keys.d_model_key);
  model.vocab_size = c.size("vocab_size");
  model.head.tied = c.flag_or("tie_word_embeddings", keys.tied);

  NormConfig norm = keys.norm;
  norm.eps = read_eps(c, keys.eps_key, static_cast<double>(keys.norm.eps));
  model.final_norm = norm;
  AttentionConfig attention;
  attention.n_heads = c.size(keys.n_heads_key);
  attention.n_kv_heads =
      keys.n_kv_heads_key.empty() ? attention.n_heads : c.size_or(keys.n_kv_heads_key, attention.n_heads);
  if (!keys.n_kv_heads_key.empty()) {
    expect_multiple(c, keys.n_heads_key, attention.n_heads, keys.n_kv_heads_key, attention.n_kv_heads);
  }
  const bool has_head_dim = !keys.head_dim_key.empty() && c.has(keys.head_dim_key);
  attention.head_dim =
      keys.head_dim && !has_head_dim
          ? *keys.head_dim
          : read_head_dim(c, keys.head_dim_key, model.d_model, attention.n_heads, keys.d_model_key, keys.n_heads_key);
  attention.score_scale = inverse_sqrt(static_cast<double>(attention.head_dim));
  model.max_seq_len = c.size_or(keys.max_seq_len_key, keys.max_seq_len);
  if (keys.has_rope) {
    attention.rope = read_rope(c, attention.head_dim, model.max_seq_len, keys.rope);
    expect_pairs(c, *attention.rope, has_head_dim || keys.head_dim ? keys.head_dim_key : keys.n_heads_key);
    model.max_seq_len = stretched_context(model.max_seq_len, *attention.rope);
  }
  const std::int64_t d_ff =
      keys.d_ff_factor > 0 ? c.size_or(keys.d_ff_key, keys.d_ff_factor * model.d_model) : c.size(keys.d_ff_key);
  const Activation activation = read_activation(c, keys.activation_key, keys.activation);
  const BlockConfig block{{{attention, {norm}}, {DenseConfig{d_ff, activation, keys.gated, false}, {norm}}}};
  model.blocks.assign(static_cast<std::size_t>(c.size(keys.n_layers_key, kMaxLayers)), block);
  return model;
}

DecoderKeys gpt2_keys() {
  return {.d_model_key = "n_embd",
          .n_layers_key = "n_layer",
          .n_heads_key = "n_head",
          .max_seq_len_key = "n_positions",
          .activation = "gelu_new",
          .activation_key = "activation_function",
          .d_ff_key = "n_inner",
          .d_ff_factor = 4,
          .gated = false,
          .eps_key = "layer_norm_epsilon",
          .norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, true},
          .head_dim_key = "",
          .n_kv_heads_key = "",
          .has_rope = false};
}

/// Those of training, of classifying heads and of the first GPT.
static void ignore_gpt2_keys(ConfigReader& c) {
  for (const char* key :
       {"attn_pdrop", "embd_pdrop", "resid_pdrop", "n_ctx", "n_special", "predict_special_tokens", "summary_activation",
        "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"}) {
    c.ignore(key);
  }
}

ModelConfig read_gpt2_decoder(ConfigReader& c, DecoderKeys keys) {
  ignore_gpt2_keys(c);
  keys.tied = true;
  ModelConfig model = read_decoder(c, keys);
  model.embedding.position_table = true;
  set_biases(model, true, true);
  return model;
}

ModelConfig read_gptj_decoder(ConfigReader& c) {
  ignore_gpt2_keys(c);
  c.ignore("rotary");  // of the first files: always true
  if (!c.flag_or("scale_attn_weights", true)) throw Unsupported(c.where(), "scale_attn_weights: expected true");
  ModelConfig model = read_decoder(c, gpt2_keys());
  const std::int64_t head_dim = attention_of(model, 0)->head_dim;
  const std::int64_t dim = c.contains("rotary_dim") ? c.size("rotary_dim") : 64;
  if (dim > std::min(head_dim, kMaxHeadDim)) {
    throw BadCheckpoint(c.where(), "rotary_dim: expected at most a head's {} elements, got {}", head_dim, dim);
  }
  for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) {
    a->rope = make_rope(10000, dim, RopeConfig::Layout::interleaved, std::monostate{});
  }
  set_biases(model, false, true);
  model.head.bias = true;
  for (BlockConfig& block : model.blocks) share_norm(block);
  return model;
}

ModelConfig read_gemma_decoder(ConfigReader& c, DecoderKeys keys) {
  if (!keys.may_be_bidirectional) c.refuse("use_bidirectional_attention");
  keys.tied = true;
  keys.norm.weight_offset = 1.0f;
  keys.head_dim = 256;
  ModelConfig model = read_decoder(c, keys);
  model.embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(model.d_model)));
  read_attention_bias(c, model);
  return model;
}

ModelConfig read_cohere_decoder(ConfigReader& c, double theta) {
  DecoderKeys keys{.max_seq_len = 8192, .tied = true, .eps_key = "layer_norm_eps"};
  keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, false};
  keys.rope.layout = RopeConfig::Layout::interleaved;
  keys.rope.theta = theta;
  ModelConfig model = read_decoder(c, keys);
  model.head.scale = static_cast<float>(c.positive_or("logit_scale", 0.0625));
  read_attention_bias(c, model);
  for (BlockConfig& block : model.blocks) share_norm(block);
  return model;
}

ModelConfig read_granite_decoder(ConfigReader& c, const DecoderKeys& keys) {
  const auto multiplier = [&](std::string_view key) { return static_cast<float>(c.positive_or(key, 1)); };
  ModelConfig model = read_decoder(c, keys);
  model.embedding.scale = multiplier("embedding_multiplier");
  model.head.scale = 1.0f / multiplier("logits_scaling");
  for (BlockConfig& block : model.blocks) {
    for (Sublayer& sublayer : block.sublayers) sublayer.scale = multiplier("residual_multiplier");
    find<AttentionConfig>(block)->score_scale = multiplier("attention_multiplier");
  }
  return model;
}

ModelConfig read_glm_decoder(ConfigReader& c) {
  DecoderKeys keys{.max_seq_len = 131072, .head_dim = 128};
  keys.norm.eps = 1.5625e-7f;
  keys.rope.layout = RopeConfig::Layout::interleaved;
  keys.rope.fraction_key = "partial_rotary_factor";
  keys.rope.fraction = 0.5;
  ModelConfig model = read_decoder(c, keys);
  set_qkv_bias(model, c.flag_or("attention_bias", true));
  return model;
}

void expect_pairs(const ConfigReader& config, const RopeConfig& rope, std::string_view key) {
  if (rope.dim % 2 == 0) return;
  throw BadCheckpoint(config.where(), "{}: expected an even number of elements that RoPE rotates in a head, got {}",
                      key.empty() ? "head_dim" : key, rope.dim);
}

std::int64_t read_head_dim(ConfigReader& config, std::string_view key, std::int64_t d_model, std::int64_t n_heads,
                           std::string_view d_model_key, std::string_view n_heads_key) {
  if (!key.empty() && config.has(key)) return config.size(key);
  if (!key.empty()) config.ignore(key);
  if (d_model % n_heads != 0) {
    throw BadCheckpoint(config.where(), "{}: expected a multiple of {} ({}), as there is no head_dim, got {}",
                        d_model_key, n_heads_key, n_heads, d_model);
  }
  return d_model / n_heads;
}

std::optional<std::int32_t> read_id(ConfigReader& c, std::string_view key, std::int64_t otherwise,
                                    std::int64_t vocab_size) {
  const double id = c.contains(key) ? c.optional_number(key).value_or(-1) : static_cast<double>(otherwise);
  if (!(id >= 0 && id < static_cast<double>(vocab_size) && id == std::floor(id))) return {};
  return static_cast<std::int32_t>(id);
}

std::optional<float> read_softcap(ConfigReader& config, std::string_view key, std::optional<double> otherwise) {
  const std::optional<double> cap = config.contains(key) ? config.optional_number(key) : otherwise;
  return cap ? std::optional(static_cast<float>(*cap)) : std::nullopt;
}

Activation activation_named(const ConfigReader& config, std::string_view key, std::string_view name) {
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "gelu") return Activation::gelu_erf;
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "relu") return Activation::relu;
  if (name == "tanh") return Activation::tanh;
  if (name == "relu2") return Activation::relu_squared;
  throw Unsupported(config.where(), "{}: activation \"{}\" is not supported ({} are)", key, name,
                    fmt::join(words(Activation()), ", "));
}

Activation read_activation(ConfigReader& config, std::string_view key, std::string_view otherwise) {
  return activation_named(config, key, config.text_or(key, otherwise));
}

float read_eps(ConfigReader& config, std::string_view key, double otherwise) {
  const double eps = config.number_or(key, otherwise);
  if (eps < 0) throw BadCheckpoint(config.where(), "{}: expected a number of at least 0, got {}", key, eps);
  return static_cast<float>(eps);
}

void expect_multiple(const ConfigReader& config, std::string_view key, std::int64_t value, std::string_view divisor_key,
                     std::int64_t divisor) {
  if (value % divisor == 0) return;
  throw BadCheckpoint(config.where(), "{}: expected a multiple of {} ({}), got {}", key, divisor_key, divisor, value);
}

void read_attention_bias(ConfigReader& c, ModelConfig& model) {
  set_biases(model, c.flag_or("attention_bias", false), false);
}

void read_biases(ConfigReader& c, ModelConfig& model) {
  set_biases(model, c.flag_or("attention_bias", false), c.flag_or("mlp_bias", false));
}

void set_qkv_bias(ModelConfig& model, bool bias) {
  for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) a->qkv_bias = bias;
}

void set_biases(ModelConfig& model, bool attention, bool ffn) {
  for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) a->qkv_bias = a->out_bias = attention;
  for (DenseConfig* dense : every<DenseConfig>(model.blocks)) dense->bias = ffn;
}

void norm_q_and_k(ModelConfig& model, QkNormConfig::Over over) {
  for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) a->qk_norm = QkNormConfig{*model.final_norm, over};
}

AlibiConfig alibi_for(const ConfigReader& config, std::int64_t n_heads, float max_bias) {
  constexpr std::int64_t kMaxHeads = 4096;
  if (n_heads <= kMaxHeads) return make_alibi(n_heads, max_bias);
  throw BadCheckpoint(config.where(), "expected at most {} heads with ALiBi, got {}", kMaxHeads, n_heads);
}

void norm_after_sublayers(ModelConfig& model) {
  for (BlockConfig& block : model.blocks) {
    for (Sublayer& sublayer : block.sublayers) sublayer.norms = {{}, model.final_norm, {}};
  }
}

BlockConfig transformer_block(const AttentionConfig& attention, const SublayerKinds::Config& ffn, bool crosses) {
  BlockConfig block{{{attention}, {ffn}}};
  if (crosses) {
    CrossAttentionConfig cross{attention};
    cross.bidirectional = true;
    cross.rope.reset();
    cross.alibi.reset();
    cross.window.reset();
    block.sublayers.insert(block.sublayers.begin() + 1, {cross});
  }
  return block;
}

void share_norm(BlockConfig& block) {
  Sublayer& ffn = block.sublayers.back();
  ffn.input = Sublayer::Input::previous;
  ffn.norms.pre.reset();
}

float inverse_sqrt(double n) { return static_cast<float>(1.0 / std::sqrt(n)); }

void read_window(ConfigReader& c, ModelConfig& model, std::optional<std::int64_t> otherwise) {
  if (c.contains("sliding_window")) otherwise = c.optional_size("sliding_window");
  for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) a->window = otherwise;
}

void read_window_of_last_layers(ConfigReader& c, ModelConfig& model) {
  const bool uses_window = c.flag_or("use_sliding_window", false);
  const double first = c.number_or("max_window_layers", 28);
  const std::vector<bool> sliding = read_sliding_layers(c, model.blocks.size());
  const bool is_null = c.contains("sliding_window") && !c.has("sliding_window");
  if (!uses_window || is_null) {
    c.ignore("sliding_window");
    if (std::find(sliding.begin(), sliding.end(), true) == sliding.end()) return;
    throw BadCheckpoint(c.where(), "layer_types: sliding_attention contradicts {}",
                        uses_window ? "sliding_window, which is null" : "use_sliding_window, which is false");
  }
  const std::int64_t window = c.size_or("sliding_window", 4096);
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    if (sliding.empty() ? static_cast<double>(i) >= first : sliding[i])
      find<AttentionConfig>(model.blocks[i])->window = window;
  }
}

std::vector<bool> read_sliding_layers(ConfigReader& config, std::size_t n_layers, std::optional<std::int64_t> pattern,
                                      std::string_view named) {
  const std::vector<std::string> types = config.texts_or_empty("layer_types");
  if (!types.empty() && types.size() != n_layers) {
    throw BadCheckpoint(config.where(), "layer_types: expected one for each of {} layers, got {}", n_layers,
                        types.size());
  }
  std::vector<bool> sliding;
  for (std::size_t layer = 0; types.empty() && pattern && layer < n_layers; ++layer) {
    sliding.push_back((static_cast<std::int64_t>(layer) + 1) % *pattern != 0);
  }
  for (const std::string& type : types) {
    if (type != named && type != "full_attention") {
      throw Unsupported(config.where(), "layer_types: expected full_attention or {}, got {}", named, type);
    }
    sliding.push_back(type == named);
  }
  return sliding;
}

}  // namespace vitrine
