// EXAONE 4: norms after the sublayers, q and k normalized; in the 32B model layers with a window and RoPE, and full
// layers without either. Sources: LG AI Research 2025; transformers, models/exaone4; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family exaone4_family() {
  Family family = decoder_family("exaone4", "Exaone4ForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{};
    keys.norm.eps = 1e-5f;
    ModelConfig model = read_decoder(c, keys);
    norm_q_and_k(model, QkNormConfig::Over::head);
    norm_after_sublayers(model);
    read_exaone_windows(c, model);
    return model;
  });
  add_norms_after(family);
  return family;
}

}  // namespace vitrine
