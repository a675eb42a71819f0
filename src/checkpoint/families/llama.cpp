// Llama 1, 2 and 3.x. Sources: Touvron et al. 2023, Llama Team 2024; transformers, models/llama; the published
// config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family llama_family() {
  return decoder_family("llama", "LlamaForCausalLM", [](ConfigReader& c) {
    c.ignore("max_sequence_length");  // early conversions wrote max_position_embeddings twice
    c.ignore("is_llama_config");      // nanotron writes it (SmolLM 2)
    c.refuse("rope_interleaved");     // also nanotron's
    ModelConfig model = read_decoder(c, {});
    read_biases(c, model);
    return model;
  });
}

}  // namespace vitrine
