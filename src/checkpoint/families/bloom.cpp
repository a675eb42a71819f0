// BLOOM: ALiBi, a norm of the embedding, LayerNorm and biases everywhere, q, k, v interleaved by head. Sources:
// BigScience 2022; transformers, models/bloom; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family bloom_family() {
  Family family = decoder_family("bloom", "BloomForCausalLM", [](ConfigReader& c) {
    // training, and how other programs divide and fuse the work
    for (const char* key :
         {"hidden_dropout", "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi",
          "pretraining_tp", "slow_but_exact", "skip_bias_add", "skip_bias_add_qkv"}) {
      c.ignore(key);
    }
    c.refuse("apply_residual_connection_post_layernorm");
    DecoderKeys keys = gpt2_keys();
    if (!c.has("n_embd")) keys.d_model_key = c.has("n_embed") ? "n_embed" : "hidden_size";
    if (c.has("num_attention_heads")) keys.n_heads_key = "num_attention_heads";
    if (c.has("num_hidden_layers")) keys.n_layers_key = "num_hidden_layers";
    keys.max_seq_len_key = "seq_length";
    keys.activation_key = "";
    keys.n_kv_heads_key = "num_key_value_heads";
    keys.tied = true;
    ModelConfig model = read_decoder(c, keys);
    if (find<DenseConfig>(model.blocks[0])->d_ff != 4 * model.d_model) {
      throw Unsupported(c.where(), "n_inner: expected 4 × hidden_size, which every BLOOM has");
    }
    model.embedding.norm = model.final_norm;
    set_biases(model, true, true);
    const AlibiConfig alibi = alibi_for(c, attention_of(model, 0)->n_heads);
    for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) a->alibi = alibi;
    return model;
  });
  family.prefixes = {"transformer.", ""};
  family.embedding = "{p}word_embeddings.weight";
  add_tensors(family.tensors, {{"{p}word_embeddings", {"embed"}},
                               {"{p}word_embeddings_layernorm", {"ln_embed"}},
                               {"{p}h.{l}.input_layernorm", {"blocks.{l}.ln1"}},
                               {"{p}h.{l}.self_attention.query_key_value",
                                {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"},
                                kAsIs,
                                Rows::by_kv_head},
                               {"{p}h.{l}.self_attention.dense", {"blocks.{l}.attn.wo"}},
                               {"{p}h.{l}.post_attention_layernorm", {"blocks.{l}.ln2"}},
                               {"{p}h.{l}.mlp.dense_h_to_4h", {"blocks.{l}.mlp.w_up"}},
                               {"{p}h.{l}.mlp.dense_4h_to_h", {"blocks.{l}.mlp.w_down"}},
                               {"{p}ln_f", {"ln_final"}}});
  family.keys = {{"d_model", "hidden_size"}, {"n_layers", "n_layer"},       {"n_heads", "n_head"},
                 {"d_ff", "n_inner"},        {"max_seq_len", "seq_length"}, {"n_kv_heads", "num_key_value_heads"}};
  return family;
}

}  // namespace vitrine
