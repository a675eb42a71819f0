// Granite 3 with experts, one of which every token uses. Sources: Granite Team 2024; transformers,
// models/granitemoeshared.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family granitemoeshared_family() {
  Family family = decoder_family("granitemoeshared", "GraniteMoeSharedForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_granite_decoder(c);
    read_attention_bias(c, model);
    read_granite_experts(c, model);
    return model;
  });
  add_granite_experts(family);
  return family;
}

}  // namespace vitrine
