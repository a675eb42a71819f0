// GPT-NeoX and Pythia: a parallel block with two norms, RoPE on a part of each head, q, k, v interleaved by head.
// Sources: Black et al. 2022; Biderman et al. 2023; transformers, models/gpt_neox; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family gpt_neox_family() {
  Family family = decoder_family("gpt_neox", "GPTNeoXForCausalLM", [](ConfigReader& c) {
    // training
    for (const char* key : {"hidden_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob"}) c.ignore(key);
    DecoderKeys keys{
        .activation = "gelu", .gated = false, .eps_key = "layer_norm_eps", .head_dim_key = "", .n_kv_heads_key = ""};
    keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, true};
    keys.rope.theta_key = "rotary_emb_base";
    keys.rope.fraction_key = "rotary_pct";
    keys.rope.fraction = 0.25;
    ModelConfig model = read_decoder(c, keys);
    const RopeConfig& rope = *attention_of(model, 0)->rope;
    if (c.number_or("rope_theta", rope.theta) != rope.theta) {  // some versions of the library wrote it twice
      throw BadCheckpoint(c.where(), "rope_theta contradicts rotary_emb_base, {}", rope.theta);
    }
    set_biases(model, c.flag_or("attention_bias", true), true);
    if (!c.flag_or("use_parallel_residual", true)) return model;
    for (BlockConfig& block : model.blocks) block.sublayers.back().input = Sublayer::Input::block;
    return model;
  });
  family.prefixes = {"gpt_neox.", ""};
  family.embedding = "{p}embed_in.weight";
  add_tensors(family.tensors, {{"{p}embed_in", {"embed"}},
                               {"{p}layers.{l}.attention.query_key_value",
                                {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"},
                                kAsIs,
                                Rows::by_kv_head},
                               {"{p}layers.{l}.attention.dense", {"blocks.{l}.attn.wo"}},
                               {"{p}layers.{l}.mlp.dense_h_to_4h", {"blocks.{l}.mlp.w_up"}},
                               {"{p}layers.{l}.mlp.dense_4h_to_h", {"blocks.{l}.mlp.w_down"}},
                               {"{p}final_layer_norm", {"ln_final"}},
                               {"embed_out", {"unembed"}}});
  family.ignored = {"{p}layers.{l}.attention.bias", "{p}layers.{l}.attention.masked_bias",
                    "{p}layers.{l}.attention.rotary_emb.inv_freq"};
  return family;
}

}  // namespace vitrine
