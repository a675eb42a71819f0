// Granite 3: a Llama with four multipliers. Sources: Granite Team 2024; transformers, models/granite; the published
// config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family granite_family() {
  return decoder_family("granite", "GraniteForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_granite_decoder(c);
    read_biases(c, model);
    return model;
  });
}

}  // namespace vitrine
