// Ministral: a Mistral with a window in the layers that layer_types names. Sources: Mistral AI 2024; transformers,
// models/ministral; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family ministral_family() {
  return decoder_family("ministral", "MinistralForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_decoder(c, {.max_seq_len = 131072});
    read_window(c, model, 4096);
    const std::vector<bool> sliding = read_sliding_layers(c, model.blocks.size());
    for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
      if (!sliding[layer]) find<AttentionConfig>(model.blocks[layer])->window.reset();
    }
    return model;
  });
}

}  // namespace vitrine
