// Mistral. Sources: Jiang et al. 2023; transformers, models/mistral; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family mistral_family() {
  return decoder_family("mistral", "MistralForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_decoder(c, {.max_seq_len = 131072});
    read_window(c, model, 4096);
    return model;
  });
}

}  // namespace vitrine
