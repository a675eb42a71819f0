// OPT: learned positions that begin at row 2, LayerNorm, ReLU. In the 350M model the norms follow the sums, no norm
// precedes the head, and linear maps lead from the embedding's 512 elements to the stream and back. Sources: Zhang et
// al. 2022; transformers, models/opt; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family opt_family() {
  Family family = decoder_family("opt", "OPTForCausalLM", [](ConfigReader& c) {
    // training; prefix is of the tokenizer
    for (const char* key : {"dropout", "layerdrop", "init_std", "activation_dropout", "prefix"}) c.ignore(key);
    DecoderKeys keys{.tied = true,
                     .activation = "relu",
                     .activation_key = "activation_function",
                     .d_ff_key = "ffn_dim",
                     .gated = false,
                     .eps_key = "",
                     .head_dim_key = "",
                     .n_kv_heads_key = "",
                     .has_rope = false};
    const bool affine = c.flag_or("layer_norm_elementwise_affine", true);
    keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, affine, affine};
    ModelConfig model = read_decoder(c, keys);
    model.embedding.position_table = true;
    model.embedding.first_position = 2;
    const std::int64_t width = c.size_or("word_embed_proj_dim", model.d_model);
    if (width != model.d_model) model.embedding.width = model.head.width = width;
    const bool bias = c.flag_or("enable_bias", true), is_norm_first = c.flag_or("do_layer_norm_before", true);
    set_biases(model, bias, bias);
    const std::optional<NormConfig> norm = model.final_norm;
    if (c.flag_or("_remove_final_layer_norm", false) || !is_norm_first) model.final_norm.reset();
    if (is_norm_first) return model;
    for (BlockConfig& block : model.blocks) {
      for (Sublayer& sublayer : block.sublayers) sublayer.norms = {{}, {}, norm};
    }
    return model;
  });
  family.prefixes = {"model.decoder.", "decoder.", ""};
  add_tensors(family.tensors, {{"{p}embed_positions", {"pos_embed"}},
                               {"{p}project_in", {"embed_proj"}},
                               {"{p}layers.{l}.self_attn_layer_norm", {"blocks.{l}.ln1"}},
                               {"{p}layers.{l}.self_attn.out_proj", {"blocks.{l}.attn.wo"}},
                               {"{p}layers.{l}.final_layer_norm", {"blocks.{l}.ln2"}},
                               {"{p}layers.{l}.fc1", {"blocks.{l}.mlp.w_up"}},
                               {"{p}layers.{l}.fc2", {"blocks.{l}.mlp.w_down"}},
                               {"{p}final_layer_norm", {"ln_final"}},
                               {"{p}project_out", {"head.proj"}}});
  family.keys.push_back({"d_ff", "ffn_dim"});
  return family;
}

}  // namespace vitrine
