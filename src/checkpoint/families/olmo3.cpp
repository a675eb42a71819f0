// OLMo 3: OLMo 2's block; of four layers three have a window and plain RoPE, only the full ones have RoPE scaling.
// Sources: OLMo Team 2025; transformers, models/olmo3; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family olmo3_family() {
  Family family = decoder_family("olmo3", "Olmo3ForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{};
    keys.norm.eps = 1e-5f;
    keys.rope.theta = 500000;
    keys.rope.layer_type = "full_attention";
    ModelConfig model = read_decoder(c, keys);
    read_attention_bias(c, model);
    norm_q_and_k(model, QkNormConfig::Over::all_heads);
    norm_after_sublayers(model);

    const RopeConfig local =
        read_rope(c, attention_of(model, 0)->head_dim, c.size_or("max_position_embeddings", keys.max_seq_len),
                  {.theta = keys.rope.theta, .layer_type = "sliding_attention"});
    const std::int64_t window = c.size_or("sliding_window", 4096);
    const std::vector<bool> sliding =
        read_sliding_layers(c, model.blocks.size(), c.size_or("sliding_window_pattern", 4));
    for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
      AttentionConfig& attention = *find<AttentionConfig>(model.blocks[layer]);
      if (!sliding[layer]) continue;
      attention.window = window;
      attention.rope = local;
    }
    return model;
  });
  add_norms_after(family);
  family.tasks = decoder_classes(1);
  return family;
}

}  // namespace vitrine
