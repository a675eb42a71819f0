// Ministral 3: a Mistral with YaRN, whose queries are scaled by their position. Sources: Mistral AI 2025; transformers,
// models/ministral3; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family ministral3_family() {
  Family family = decoder_family("ministral3", "Ministral3ForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 262144, .head_dim = 128};
    keys.norm.eps = 1e-5f;
    keys.rope.theta = 1e6;
    keys.rope.has_query_scale = true;
    ModelConfig model = read_decoder(c, keys);
    read_window(c, model, std::nullopt);
    const auto scale = read_query_scale(c);
    for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) a->query_scale = scale;
    return model;
  });
  family.tasks = decoder_classes(11);
  return family;
}

}  // namespace vitrine
