// MPT: ALiBi, LayerNorm without bias, no biases at all, q, k and v in one tensor. Sources: MosaicML 2023; transformers,
// models/mpt; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

static void read_mpt_attention(ConfigReader c, ModelConfig& model) {
  for (const char* key : {"attn_pdrop", "attn_impl", "attn_uses_sequence_id", "model_type"}) c.ignore(key);
  for (const char* key : {"prefix_lm", "qk_ln", "qk_gn", "rope"}) c.refuse(key);
  if (c.text_or("attn_type", "multihead_attention") != "multihead_attention" || !c.flag_or("alibi", true)) {
    throw Unsupported(c.where(), "expected attn_type multihead_attention, with alibi");
  }
  const auto max_bias = static_cast<float>(c.positive_or("alibi_bias_max", 8));
  const AlibiConfig alibi = alibi_for(c, attention_of(model, 0)->n_heads, max_bias);
  for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) {
    a->alibi = alibi;
    a->score_scale = static_cast<float>(c.number_or("softmax_scale", static_cast<double>(a->score_scale)));
    if (const double clip = c.number_or("clip_qkv", 0); clip != 0) a->qkv_clip = static_cast<float>(clip);
  }
  c.finish();
}

Family mpt_family() {
  Family family = gpt2_like_family("mpt", "MptForCausalLM", [](ConfigReader& c) {
    // Training, and what transformers does not read: ALiBi replaces learned positions, the FFN has 4 d_model elements.
    for (const char* key : {"resid_pdrop", "emb_pdrop", "init_config", "init_device", "embedding_fraction", "verbose",
                            "learned_pos_emb", "expansion_ratio"}) {
      c.ignore(key);
    }
    c.refuse("logit_scale");
    const bool is_usual = c.flag_or("no_bias", true) && c.text_or("norm_type", "layernorm").ends_with("layernorm");
    if (!is_usual) throw Unsupported(c.where(), "expected no_bias, and a norm_type that ends in layernorm");
    DecoderKeys keys = gpt2_keys();
    keys.d_model_key = "d_model";
    keys.n_layers_key = "n_layers";
    keys.n_heads_key = "n_heads";
    keys.max_seq_len_key = "max_seq_len";
    keys.activation = "gelu";
    keys.activation_key = keys.d_ff_key = "";
    keys.norm.bias = false;
    keys.tied = true;
    ModelConfig model = read_decoder(c, keys);
    const Json none = Json::object();
    read_mpt_attention(c.object("attn_config").value_or(ConfigReader(none, c.where())), model);
    return model;
  });
  add_tensors(family.tensors,
              {{"{p}blocks.{l}.norm_1", {"blocks.{l}.ln1"}},
               {"{p}blocks.{l}.attn.Wqkv", {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"}},
               {"{p}blocks.{l}.attn.out_proj", {"blocks.{l}.attn.wo"}},
               {"{p}blocks.{l}.norm_2", {"blocks.{l}.ln2"}},
               {"{p}blocks.{l}.ffn.up_proj", {"blocks.{l}.mlp.w_up"}},
               {"{p}blocks.{l}.ffn.down_proj", {"blocks.{l}.mlp.w_down"}},
               {"{p}norm_f", {"ln_final"}}});
  family.keys.clear();
  return family;
}

}  // namespace vitrine
