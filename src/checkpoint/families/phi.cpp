// Phi-1, 1.5 and 2: attention and FFN side by side on one norm, a part of each head turned, biases everywhere, those of
// the head among them. Sources: Gunasekar et al. 2023; Li et al. 2023; transformers, models/phi; the published
// config.json files.
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_phi(ConfigReader& c) {
  for (const char* key : {"resid_pdrop", "embd_pdrop"}) c.ignore(key);  // training
  c.refuse("qk_layernorm");
  DecoderKeys keys{.activation = "gelu_new", .eps_key = "layer_norm_eps", .head_dim_key = ""};
  keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, true};
  keys.rope.fraction_key = "partial_rotary_factor";
  keys.rope.fraction = 0.5;
  ModelConfig model = read_decoder(c, keys);
  model.head.bias = true;
  for (BlockConfig& block : model.blocks) {
    share_norm(block);
    block.attention.qkv_bias = block.attention.out_bias = true;
    auto& ffn = std::get<DenseConfig>(block.ffn);
    ffn.gated = false;
    ffn.bias = true;
  }
  return model;
}

}  // namespace

Family phi_family() {
  Family family;
  family.model_type = "phi";
  family.architectures = {"PhiForCausalLM"};
  family.read_config = read_phi;
  use_decoder_names(family);
  add_pre_norms(family);
  add_tensors(family, {{"{p}layers.{l}.self_attn.dense.weight", {"blocks.{l}.attn.wo.weight"}},
                       {"{p}layers.{l}.self_attn.dense.bias", {"blocks.{l}.attn.wo.bias"}},
                       {"{p}layers.{l}.mlp.fc1.weight", {"blocks.{l}.mlp.w_up.weight"}},
                       {"{p}layers.{l}.mlp.fc1.bias", {"blocks.{l}.mlp.w_up.bias"}},
                       {"{p}layers.{l}.mlp.fc2.weight", {"blocks.{l}.mlp.w_down.weight"}},
                       {"{p}layers.{l}.mlp.fc2.bias", {"blocks.{l}.mlp.w_down.bias"}},
                       {"{p}final_layernorm.weight", {"ln_final.weight"}},
                       {"{p}final_layernorm.bias", {"ln_final.bias"}},
                       {"lm_head.bias", {"unembed.bias"}}});
  return family;
}

}  // namespace vitrine
