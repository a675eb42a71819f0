// Llama 1, 2 and 3.x. Sources: Touvron et al. 2023, Llama Team 2024; transformers, models/llama; the published
// config.json files.
#include <cmath>

#include "base/error.h"
#include "checkpoint/families/families.h"

namespace vitrine {
namespace {

ModelConfig read_llama(ConfigReader& c) {
  c.ignore("max_sequence_length");  // early conversions wrote max_position_embeddings twice
  ModelConfig model;
  model.d_model = c.size("hidden_size");
  model.vocab_size = c.size("vocab_size");
  model.max_seq_len = c.size_or("max_position_embeddings", 2048);
  model.head.tied = c.flag_or("tie_word_embeddings", false);

  const NormConfig norm{NormConfig::Kind::rms, static_cast<float>(c.number_or("rms_norm_eps", 1e-6)), 0.0f, false};
  BlockConfig block;
  block.norms.attn_pre = block.norms.ffn_pre = norm;
  AttentionConfig& attention = block.attention;
  attention.n_heads = c.size("num_attention_heads");
  attention.n_kv_heads = c.size_or("num_key_value_heads", attention.n_heads);
  attention.head_dim = read_head_dim(c, "head_dim", model.d_model, attention.n_heads);
  attention.score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(attention.head_dim)));
  attention.rope = read_rope(c, attention.head_dim, RopeConfig::Layout::halves);
  attention.qkv_bias = attention.out_bias = c.flag_or("attention_bias", false);
  block.ffn = DenseConfig{c.size("intermediate_size"), activation_named(c, c.text_or("hidden_act", "silu")), true,
                          c.flag_or("mlp_bias", false)};
  model.final_norm = norm;
  model.blocks.assign(static_cast<std::size_t>(c.size("num_hidden_layers", kMaxLayers)), block);
  return model;
}

}  // namespace

Family llama_family() {
  Family family;
  family.model_type = "llama";
  family.architectures = {"LlamaForCausalLM"};
  family.read_config = read_llama;
  use_decoder_names(family);
  family.tensors.push_back({"{p}layers.{l}.post_attention_layernorm.weight", {"blocks.{l}.ln2.weight"}});
  family.ignored = {"{p}layers.{l}.self_attn.rotary_emb.inv_freq", "{p}rotary_emb.inv_freq"};
  return family;
}

}  // namespace vitrine
