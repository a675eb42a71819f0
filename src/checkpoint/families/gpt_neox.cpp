// GPT-NeoX and Pythia: attention and FFN side by side, a part of each head turned, q, k and v mixed head by head.
// Sources: Black et al. 2022; Biderman et al. 2023; transformers, models/gpt_neox; the published config.json files.
#include "base/error.h"
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_gpt_neox(ConfigReader& c) {
  // training
  for (const char* key : {"hidden_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob"}) c.ignore(key);
  DecoderKeys keys{.activation = "gelu", .eps_key = "layer_norm_eps", .head_dim_key = "", .n_kv_heads_key = ""};
  keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, true};
  keys.rope.theta_key = "rotary_emb_base";
  keys.rope.fraction_key = "rotary_pct";
  keys.rope.fraction = 0.25;
  ModelConfig model = read_decoder(c, keys);
  const RopeConfig& rope = *model.blocks[0].attention().rope;
  if (c.number_or("rope_theta", rope.theta) != rope.theta) {  // some versions of the library wrote it twice
    throw BadCheckpoint(c.where(), "rope_theta contradicts rotary_emb_base, {}", rope.theta);
  }
  const bool is_parallel = c.flag_or("use_parallel_residual", true);
  const bool bias = c.flag_or("attention_bias", true);
  for (BlockConfig& block : model.blocks) {
    if (is_parallel) block.residual = BlockConfig::Residual::parallel;
    block.attention().qkv_bias = block.attention().out_bias = bias;
    auto& ffn = std::get<DenseConfig>(block.ffn);
    ffn.gated = false;
    ffn.bias = true;
  }
  return model;
}

}  // namespace

Family gpt_neox_family() {
  Family family;
  family.model_type = "gpt_neox";
  family.architectures = {"GPTNeoXForCausalLM"};
  family.read_config = read_gpt_neox;
  use_decoder_names(family);
  family.prefixes = {"gpt_neox.", ""};
  family.embedding = "{p}embed_in.weight";
  family.tensors = {
      {"{p}embed_in.weight", {"embed.weight"}},
      {"{p}layers.{l}.attention.query_key_value.weight",
       {"blocks.{l}.attn.wq.weight", "blocks.{l}.attn.wk.weight", "blocks.{l}.attn.wv.weight"},
       kAsIs,
       Rows::by_kv_head},
      {"{p}layers.{l}.attention.query_key_value.bias",
       {"blocks.{l}.attn.wq.bias", "blocks.{l}.attn.wk.bias", "blocks.{l}.attn.wv.bias"},
       kAsIs,
       Rows::by_kv_head},
      {"{p}layers.{l}.attention.dense.weight", {"blocks.{l}.attn.wo.weight"}},
      {"{p}layers.{l}.attention.dense.bias", {"blocks.{l}.attn.wo.bias"}},
      {"{p}layers.{l}.mlp.dense_h_to_4h.weight", {"blocks.{l}.mlp.w_up.weight"}},
      {"{p}layers.{l}.mlp.dense_h_to_4h.bias", {"blocks.{l}.mlp.w_up.bias"}},
      {"{p}layers.{l}.mlp.dense_4h_to_h.weight", {"blocks.{l}.mlp.w_down.weight"}},
      {"{p}layers.{l}.mlp.dense_4h_to_h.bias", {"blocks.{l}.mlp.w_down.bias"}},
      {"{p}final_layer_norm.weight", {"ln_final.weight"}},
      {"{p}final_layer_norm.bias", {"ln_final.bias"}},
      {"embed_out.weight", {"unembed.weight"}},
  };
  add_tensors(family, {{"{p}layers.{l}.input_layernorm.weight", {"blocks.{l}.ln1.weight"}}});
  add_pre_norms(family);
  family.ignored = {"{p}layers.{l}.attention.bias", "{p}layers.{l}.attention.masked_bias",
                    "{p}layers.{l}.attention.rotary_emb.inv_freq"};
  return family;
}

}  // namespace vitrine
