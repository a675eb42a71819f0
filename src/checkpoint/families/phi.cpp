// Phi-1, 1.5 and 2: a parallel block on one norm, RoPE on a part of each head, biases everywhere, including the head.
// Sources: Gunasekar et al. 2023; Li et al. 2023; transformers, models/phi; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family phi_family() {
  Family family = decoder_family("phi", "PhiForCausalLM", [](ConfigReader& c) {
    for (const char* key : {"resid_pdrop", "embd_pdrop"}) c.ignore(key);  // training
    c.refuse("qk_layernorm");
    DecoderKeys keys{.activation = "gelu_new", .gated = false, .eps_key = "layer_norm_eps", .head_dim_key = ""};
    keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, true};
    keys.rope.fraction_key = "partial_rotary_factor";
    keys.rope.fraction = 0.5;
    ModelConfig model = read_decoder(c, keys);
    model.head.bias = true;
    set_biases(model, true, true);
    for (BlockConfig& block : model.blocks) share_norm(block);
    return model;
  });
  add_tensors(family.tensors, {{"{p}layers.{l}.self_attn.dense", {"blocks.{l}.attn.wo"}},
                               {"{p}layers.{l}.mlp.fc1", {"blocks.{l}.mlp.w_up"}},
                               {"{p}layers.{l}.mlp.fc2", {"blocks.{l}.mlp.w_down"}},
                               {"{p}final_layernorm", {"ln_final"}}});
  return family;
}

}  // namespace vitrine
