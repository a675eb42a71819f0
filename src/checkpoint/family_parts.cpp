#include "checkpoint/family_parts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace vitrine {

void use_decoder_names(Family& family) {
  family.prefixes = {"model.", ""};
  family.embedding = "{p}embed_tokens.weight";
  family.tensors = {
      {"{p}embed_tokens.weight", {"embed.weight"}},
      {"{p}layers.{l}.input_layernorm.weight", {"blocks.{l}.ln1.weight"}},
      {"{p}layers.{l}.self_attn.q_proj.weight", {"blocks.{l}.attn.wq.weight"}},
      {"{p}layers.{l}.self_attn.q_proj.bias", {"blocks.{l}.attn.wq.bias"}},
      {"{p}layers.{l}.self_attn.k_proj.weight", {"blocks.{l}.attn.wk.weight"}},
      {"{p}layers.{l}.self_attn.k_proj.bias", {"blocks.{l}.attn.wk.bias"}},
      {"{p}layers.{l}.self_attn.v_proj.weight", {"blocks.{l}.attn.wv.weight"}},
      {"{p}layers.{l}.self_attn.v_proj.bias", {"blocks.{l}.attn.wv.bias"}},
      {"{p}layers.{l}.self_attn.o_proj.weight", {"blocks.{l}.attn.wo.weight"}},
      {"{p}layers.{l}.self_attn.o_proj.bias", {"blocks.{l}.attn.wo.bias"}},
      {"{p}layers.{l}.mlp.gate_proj.weight", {"blocks.{l}.mlp.w_gate.weight"}},
      {"{p}layers.{l}.mlp.gate_proj.bias", {"blocks.{l}.mlp.w_gate.bias"}},
      {"{p}layers.{l}.mlp.up_proj.weight", {"blocks.{l}.mlp.w_up.weight"}},
      {"{p}layers.{l}.mlp.up_proj.bias", {"blocks.{l}.mlp.w_up.bias"}},
      {"{p}layers.{l}.mlp.down_proj.weight", {"blocks.{l}.mlp.w_down.weight"}},
      {"{p}layers.{l}.mlp.down_proj.bias", {"blocks.{l}.mlp.w_down.bias"}},
      {"{p}norm.weight", {"ln_final.weight"}},
      {"{p}norm.bias", {"ln_final.bias"}},
      {"lm_head.weight", {"unembed.weight"}},
  };
  family.ignored = {"{p}layers.{l}.self_attn.rotary_emb.inv_freq", "{p}rotary_emb.inv_freq"};  // of early libraries
  family.keys = {{"d_model", "hidden_size"},         {"n_layers", "num_hidden_layers"},
                 {"n_heads", "num_attention_heads"}, {"n_kv_heads", "num_key_value_heads"},
                 {"d_ff", "intermediate_size"},      {"max_seq_len", "max_position_embeddings"},
                 {"window", "sliding_window"}};
}

void add_tensors(Family& family, std::initializer_list<TensorRule> rules) {
  for (const TensorRule& rule : rules) {
    if (rule.applies != nullptr) continue;  // another rule has the parameter in the other layers
    std::erase_if(family.tensors, [&](const TensorRule& old) {
      return std::find_first_of(old.ours.begin(), old.ours.end(), rule.ours.begin(), rule.ours.end()) != old.ours.end();
    });
  }
  family.tensors.insert(family.tensors.end(), rules.begin(), rules.end());
}

void add_pre_norms(Family& family) {
  add_tensors(family, {{"{p}layers.{l}.input_layernorm.bias", {"blocks.{l}.ln1.bias"}},
                       {"{p}layers.{l}.post_attention_layernorm.weight", {"blocks.{l}.ln2.weight"}},
                       {"{p}layers.{l}.post_attention_layernorm.bias", {"blocks.{l}.ln2.bias"}}});
}

void add_four_norms(Family& family) {
  add_tensors(family, {{"{p}layers.{l}.post_attention_layernorm.weight", {"blocks.{l}.ln1_post.weight"}},
                       {"{p}layers.{l}.pre_feedforward_layernorm.weight", {"blocks.{l}.ln2.weight"}},
                       {"{p}layers.{l}.post_feedforward_layernorm.weight", {"blocks.{l}.ln2_post.weight"}}});
}

void add_qk_norms(Family& family) {
  add_tensors(family, {{"{p}layers.{l}.self_attn.q_norm.weight", {"blocks.{l}.attn.q_norm.weight"}},
                       {"{p}layers.{l}.self_attn.k_norm.weight", {"blocks.{l}.attn.k_norm.weight"}}});
}

void add_experts(Family& family) {
  add_tensors(family,
              {{"{p}layers.{l}.mlp.gate.weight", {"blocks.{l}.mlp.router.weight"}},
               {"{p}layers.{l}.mlp.experts.{e}.gate_proj.weight", {"blocks.{l}.mlp.experts.{e}.w_gate.weight"}},
               {"{p}layers.{l}.mlp.experts.{e}.up_proj.weight", {"blocks.{l}.mlp.experts.{e}.w_up.weight"}},
               {"{p}layers.{l}.mlp.experts.{e}.down_proj.weight", {"blocks.{l}.mlp.experts.{e}.w_down.weight"}}});
  family.keys.push_back({"n_experts", "num_experts"});
  family.keys.push_back({"top_k", "num_experts_per_tok"});
  family.keys.push_back({"d_ff_expert", "moe_intermediate_size"});
}

void norm_heads(ConfigReader& c, ModelConfig& model) {
  const bool bias = c.flag_or("attention_bias", false);
  for (BlockConfig& block : model.blocks) {
    block.attention.qk_norm = QkNormConfig{model.final_norm, QkNormConfig::Over::head};
    block.attention.qkv_bias = block.attention.out_bias = bias;
  }
}

ModelConfig read_decoder(ConfigReader& c, const DecoderKeys& keys) {
  ModelConfig model;
  model.d_model = c.size("hidden_size");
  model.vocab_size = c.size("vocab_size");
  model.head.tied = c.flag_or("tie_word_embeddings", keys.tied);

  NormConfig norm = keys.norm;
  norm.eps = static_cast<float>(c.number_or(keys.eps_key, static_cast<double>(keys.norm.eps)));
  BlockConfig block;
  block.norms.attn_pre = block.norms.ffn_pre = model.final_norm = norm;
  AttentionConfig& attention = block.attention;
  attention.n_heads = c.size("num_attention_heads");
  attention.n_kv_heads =
      keys.n_kv_heads_key.empty() ? attention.n_heads : c.size_or(keys.n_kv_heads_key, attention.n_heads);
  const bool has_head_dim = !keys.head_dim_key.empty() && c.has(keys.head_dim_key);
  attention.head_dim = keys.head_dim && !has_head_dim
                           ? *keys.head_dim
                           : read_head_dim(c, keys.head_dim_key, model.d_model, attention.n_heads);
  attention.score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(attention.head_dim)));
  RopeKeys rope = keys.rope;
  rope.max_seq_len = keys.max_seq_len;
  attention.rope = read_rope(c, attention.head_dim, rope);
  model.max_seq_len = stretched_context(c.size_or("max_position_embeddings", keys.max_seq_len), *attention.rope);
  block.ffn = DenseConfig{c.size("intermediate_size"),
                          activation_named(c, c.text_or(keys.activation_key, keys.activation)), true, false};
  model.blocks.assign(static_cast<std::size_t>(c.size("num_hidden_layers", kMaxLayers)), block);
  return model;
}

ModelConfig read_gemma_decoder(ConfigReader& c, DecoderKeys keys) {
  c.refuse("use_bidirectional_attention");
  keys.tied = true;
  keys.norm.weight_offset = 1.0f;
  keys.head_dim = 256;
  ModelConfig model = read_decoder(c, keys);
  model.embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(model.d_model)));
  const bool bias = c.flag_or("attention_bias", false);
  for (BlockConfig& block : model.blocks) block.attention.qkv_bias = block.attention.out_bias = bias;
  return model;
}

ModelConfig read_cohere_decoder(ConfigReader& c, double theta) {
  DecoderKeys keys{.max_seq_len = 8192, .tied = true, .eps_key = "layer_norm_eps"};
  keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, false};
  keys.rope.layout = RopeConfig::Layout::interleaved;
  keys.rope.theta = theta;
  ModelConfig model = read_decoder(c, keys);
  const double logit_scale = c.number_or("logit_scale", 0.0625);
  if (!(logit_scale > 0)) throw BadCheckpoint(c.where(), "logit_scale must be above 0, got {}", logit_scale);
  model.head.scale = static_cast<float>(logit_scale);
  const bool bias = c.flag_or("attention_bias", false);
  for (BlockConfig& block : model.blocks) {
    share_norm(block);
    block.attention.qkv_bias = block.attention.out_bias = bias;
  }
  return model;
}

void share_norm(BlockConfig& block) {
  block.residual = BlockConfig::Residual::parallel;
  block.norms.ffn_pre.reset();
  block.norms.ffn_reads_attn_pre = true;
}

void read_window(ConfigReader& c, ModelConfig& model, std::optional<std::int64_t> otherwise) {
  if (c.stands("sliding_window")) otherwise = c.optional_size("sliding_window");
  for (BlockConfig& block : model.blocks) block.attention.window = otherwise;
}

void read_window_of_last_layers(ConfigReader& c, ModelConfig& model) {
  const bool uses_window = c.flag_or("use_sliding_window", false);
  const double first = c.number_or("max_window_layers", 28);
  const std::vector<bool> sliding = read_sliding_layers(c, model.blocks.size());
  const bool names_sliding = std::find(sliding.begin(), sliding.end(), true) != sliding.end();
  if (!uses_window) {
    c.ignore("sliding_window");
    if (!names_sliding) return;
    throw BadCheckpoint(c.where(), "layer_types: sliding_attention contradicts use_sliding_window, which is false");
  }
  if (c.stands("sliding_window") && !c.has("sliding_window")) {
    c.ignore("sliding_window");
    if (!names_sliding) return;
    throw BadCheckpoint(c.where(), "layer_types: sliding_attention contradicts sliding_window, which is null");
  }
  const std::int64_t window = c.size_or("sliding_window", 4096);
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    if (sliding.empty() ? static_cast<double>(i) >= first : sliding[i]) model.blocks[i].attention.window = window;
  }
}

void read_experts_of_some_layers(ConfigReader& c, ModelConfig& model, const MoeConfig& moe) {
  for (const char* key : {"output_router_logits", "router_aux_loss_coef"}) c.ignore(key);  // training
  const std::int64_t step = c.size_or("decoder_sparse_step", 1);
  std::vector<std::int64_t> dense = c.sizes_or_empty("mlp_only_layers");
  std::sort(dense.begin(), dense.end());
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const bool is_dense = std::binary_search(dense.begin(), dense.end(), layer) || (layer + 1) % step != 0;
    if (!is_dense) model.blocks[i].ffn = moe;
  }
}

std::int64_t read_head_dim(ConfigReader& config, std::string_view key, std::int64_t d_model, std::int64_t n_heads) {
  if (!key.empty() && config.has(key)) return config.size(key);
  if (!key.empty()) config.ignore(key);
  if (d_model % n_heads != 0) {
    throw BadCheckpoint(config.where(),
                        "d_model must be a multiple of the number of heads where no head_dim is given, "
                        "got {} and {}",
                        d_model, n_heads);
  }
  return d_model / n_heads;
}

std::optional<float> read_softcap(ConfigReader& config, std::string_view key, std::optional<double> otherwise) {
  const std::optional<double> cap = config.stands(key) ? config.optional_number(key) : otherwise;
  return cap ? std::optional(static_cast<float>(*cap)) : std::nullopt;
}

}  // namespace vitrine
