// Qwen 3.5 and 3.6, the text half: delta nets and gated attention. Sources: Qwen Team 2026; transformers,
// models/qwen3_5; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family qwen3_5_text_family() {
  Family family = decoder_family("qwen3_5_text", "Qwen3_5ForCausalLM", [](ConfigReader& c) {
    return read_qwen_hybrid(c, DeltaNetConfig::Projections::joined);
  });
  add_gated_queries(family);
  add_qwen3_5_delta_net(family);
  return family;
}

}  // namespace vitrine
