// Granite 3: a Llama with four multipliers. Sources: Granite Team 2024; transformers, models/granite; the published
// config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family granite_family() {
  return decoder_family("granite", "GraniteForCausalLM", [](ConfigReader& c) {
    const auto multiplier = [&](std::string_view key) { return static_cast<float>(c.positive_or(key, 1)); };
    ModelConfig model = read_decoder(c, {});
    read_biases(c, model);
    model.embedding.scale = multiplier("embedding_multiplier");
    model.head.scale = 1.0f / multiplier("logits_scaling");
    for (BlockConfig& block : model.blocks) {
      for (Sublayer& sublayer : block.sublayers) sublayer.scale = multiplier("residual_multiplier");
      find<AttentionConfig>(block)->score_scale = multiplier("attention_multiplier");
    }
    return model;
  });
}

}  // namespace vitrine
