// Qwen 2 and 2.5. Sources: Qwen Team 2024 (both reports); transformers, models/qwen2; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family qwen2_family() {
  return decoder_family("qwen2", "Qwen2ForCausalLM", [](ConfigReader& c) {
    c.refuse("use_mrope");  // positions of images
    ModelConfig model = read_decoder(c, {.max_seq_len = 32768});
    set_qkv_bias(model, true);
    read_window_of_last_layers(c, model);
    return model;
  });
}

}  // namespace vitrine
