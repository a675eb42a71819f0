// dots.1: Qwen 3's attention, dense layers, then experts with DeepSeek V3's router. Sources: rednote-hilab 2025;
// transformers, models/dots1; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family dots1_family() {
  return grouped_experts_family("dots1", "Dots1ForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_decoder(c, {});
    read_attention_bias(c, model);
    norm_q_and_k(model, QkNormConfig::Over::head);
    const auto window = c.contains("sliding_window") ? c.optional_size("sliding_window") : 4096;
    const double first_sliding = c.number_or("max_window_layers", 62);
    const std::vector<bool> sliding = read_sliding_layers(c, model.blocks.size());
    for (std::size_t i = 0; i < model.blocks.size(); ++i) {
      const bool slides = sliding.empty() ? static_cast<double>(i) >= first_sliding : sliding[i];
      if (slides) find<AttentionConfig>(model.blocks[i])->window = window;
    }
    const MoeConfig moe = read_grouped_experts(c, model, {.d_ff = 1408}, false);
    put_experts(model, moe, read_first_sparse_layer(c, 0));
    return model;
  });
}

}  // namespace vitrine
