// Jais 2: LayerNorm, biases, a plain FFN with ReLU². Sources: Inception, MBZUAI & Cerebras 2025; transformers,
// models/jais2; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family jais2_family() {
  return decoder_family("jais2", "Jais2ForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 8192, .activation = "relu2", .gated = false, .eps_key = "layer_norm_eps"};
    keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, true};
    ModelConfig model = read_decoder(c, keys);
    set_biases(model, c.flag_or("attention_bias", true), c.flag_or("mlp_bias", true));
    return model;
  });
}

}  // namespace vitrine
