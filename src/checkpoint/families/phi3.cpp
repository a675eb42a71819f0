// Phi 3: fused qkv and gate_up, LongRoPE. Sources: Abdin et al. 2024; transformers, models/phi3; the published
// config.json files.
#include "base/error.h"
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_phi3(ConfigReader& c) {
  for (const char* key : {"resid_pdrop", "embd_pdrop"}) c.ignore(key);  // training
  DecoderKeys keys{.max_seq_len = 4096};
  keys.norm.eps = 1e-5f;
  keys.rope.fraction_key = "partial_rotary_factor";
  keys.rope.original_max_seq_len = c.size_or("original_max_position_embeddings", 4096);
  ModelConfig model = read_decoder(c, keys);
  for (const char* key : {"attention_bias", "mlp_bias", "lm_head_bias"}) c.refuse(key);  // nothing here has one
  for (const char* key : {"full_attn_mod", "interpolate_factor"}) {  // Phi-4 mini's, for what was never published
    if (c.size_or(key, 1) != 1) throw Unsupported(c.where(), "{}: only 1 is supported", key);
  }
  read_window(c, model, std::nullopt);
  return model;
}

}  // namespace

Family phi3_family() {
  Family family;
  family.model_type = "phi3";
  family.architectures = {"Phi3ForCausalLM"};
  family.read_config = read_phi3;
  use_decoder_names(family);
  add_pre_norms(family);
  add_tensors(family, {{"{p}layers.{l}.self_attn.qkv_proj.weight",
                        {"blocks.{l}.attn.wq.weight", "blocks.{l}.attn.wk.weight", "blocks.{l}.attn.wv.weight"}},
                       {"{p}layers.{l}.mlp.gate_up_proj.weight",
                        {"blocks.{l}.mlp.w_gate.weight", "blocks.{l}.mlp.w_up.weight"}}});
  return family;
}

}  // namespace vitrine
