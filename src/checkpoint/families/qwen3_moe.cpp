// Qwen 3 with experts. Sources: Qwen Team 2025; transformers, models/qwen3_moe; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family qwen3_moe_family() {
  Family family = decoder_family("qwen3_moe", "Qwen3MoeForCausalLM", [](ConfigReader& c) {
    c.ignore("max_window_layers");  // in the published files; a window applies to all layers
    ModelConfig model = read_decoder(c, {.max_seq_len = 32768});
    read_attention_bias(c, model);
    norm_q_and_k(model, QkNormConfig::Over::head);
    if (c.flag_or("use_sliding_window", false)) {
      read_window(c, model, 4096);
    } else {
      c.ignore("sliding_window");
    }
    read_qwen_experts(c, model, c.size_or("num_local_experts", 128), 8, 768);
    return model;
  });
  add_experts(family);
  family.balance_loss = 0.001;
  return family;
}

}  // namespace vitrine
