// Ministral 3: a Mistral with YaRN, whose queries are scaled by their position. Sources: Mistral AI 2025; transformers,
// models/ministral3; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family ministral3_family() {
  return decoder_family("ministral3", "Ministral3ForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 262144, .head_dim = 128};
    keys.norm.eps = 1e-5f;
    keys.rope.theta = 1e6;
    keys.rope.has_query_scale = true;
    ModelConfig model = read_decoder(c, keys);
    read_window(c, model, std::nullopt);
    auto table = c.object("rope_parameters");
    const auto beta = table ? table->optional_number("llama_4_scaling_beta") : std::nullopt;
    if (!beta) throw BadCheckpoint(c.where(), "rope_parameters: expected a table with llama_4_scaling_beta");
    const QueryScaleConfig scale{static_cast<float>(*beta), table->size("original_max_position_embeddings")};
    for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) a->query_scale = scale;
    return model;
  });
}

}  // namespace vitrine
