// OLMo 2: norms behind the sublayers only, q and k normed over their full width. Sources: OLMo Team 2024; transformers,
// models/olmo2; the published config.json files.
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_olmo2(ConfigReader& c) {
  DecoderKeys keys{};
  keys.norm.eps = 1e-5f;
  ModelConfig model = read_decoder(c, keys);
  const bool bias = c.flag_or("attention_bias", false);
  for (BlockConfig& block : model.blocks) {
    block.norms = {std::nullopt, model.final_norm, std::nullopt, model.final_norm, false};
    block.attention().qk_norm = QkNormConfig{model.final_norm, QkNormConfig::Over::all_heads};
    block.attention().qkv_bias = block.attention().out_bias = bias;
  }
  return model;
}

}  // namespace

Family olmo2_family() {
  Family family;
  family.model_type = "olmo2";
  family.architectures = {"Olmo2ForCausalLM"};
  family.read_config = read_olmo2;
  use_decoder_names(family);
  add_qk_norms(family);
  add_tensors(family, {{"{p}layers.{l}.post_attention_layernorm.weight", {"blocks.{l}.ln1_post.weight"}},
                       {"{p}layers.{l}.post_feedforward_layernorm.weight", {"blocks.{l}.ln2_post.weight"}}});
  return family;
}

}  // namespace vitrine
