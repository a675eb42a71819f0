// Qwen 3, dense. Sources: Qwen Team 2025; transformers, models/qwen3; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family qwen3_family() {
  return decoder_family("qwen3", "Qwen3ForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_decoder(c, {.max_seq_len = 32768, .head_dim = 128});
    read_attention_bias(c, model);
    norm_q_and_k(model, QkNormConfig::Over::head);
    read_window_of_last_layers(c, model);
    return model;
  });
}

}  // namespace vitrine
