// OLMo 2: norms after the sublayers only, q and k normalized over their full width. Sources: OLMo Team 2024;
// transformers, models/olmo2; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family olmo2_family() {
  Family family = decoder_family("olmo2", "Olmo2ForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{};
    keys.norm.eps = 1e-5f;
    ModelConfig model = read_decoder(c, keys);
    read_attention_bias(c, model);
    norm_q_and_k(model, QkNormConfig::Over::all_heads);
    norm_after_sublayers(model);
    return model;
  });
  add_norms_after(family);
  family.tasks = decoder_classes(1);
  return family;
}

}  // namespace vitrine
