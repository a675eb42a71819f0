// Nemotron 3 and 4, Minitron: LayerNorm with 1 + w, RoPE on half of each head, a plain FFN with ReLU². Sources: Parmar
// et al. 2024; transformers, models/nemotron; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family nemotron_family() {
  return decoder_family("nemotron", "NemotronForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 4096, .activation = "relu2", .gated = false, .eps_key = "norm_eps"};
    keys.norm = {NormConfig::Kind::layer, 1e-5f, 1.0f, true};
    keys.rope.fraction_key = "partial_rotary_factor";
    keys.rope.fraction = 0.5;
    ModelConfig model = read_decoder(c, keys);
    read_biases(c, model);
    return model;
  });
}

}  // namespace vitrine
