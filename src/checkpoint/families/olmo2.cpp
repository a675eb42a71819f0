// OLMo 2: norms after the sublayers only, q and k normalized over their full width. Sources: OLMo Team 2024;
// transformers, models/olmo2; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family olmo2_family() {
  Family family = decoder_family("olmo2", "Olmo2ForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{};
    keys.norm.eps = 1e-5f;
    ModelConfig model = read_decoder(c, keys);
    read_attention_bias(c, model);
    norm_q_and_k(model, QkNormConfig::Over::all_heads);
    for (BlockConfig& block : model.blocks) {
      for (Sublayer& sublayer : block.sublayers) sublayer.norms = {{}, model.final_norm, {}};
    }
    return model;
  });
  add_tensors(family.tensors, {{"{p}layers.{l}.post_attention_layernorm", {"blocks.{l}.ln1_post"}},
                               {"{p}layers.{l}.post_feedforward_layernorm", {"blocks.{l}.ln2_post"}}});
  return family;
}

}  // namespace vitrine
