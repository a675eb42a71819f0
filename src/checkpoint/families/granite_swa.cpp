// Granite with windows: Granite 3 with sinks; of four layers the first is full; each layer has its own RoPE, or none.
// Sources: Granite Team 2026; transformers, models/granite_swa.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family granite_swa_family() {
  Family family = decoder_family("granite_swa", "GraniteSWAForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 8192, .tied = true};
    keys.norm.eps = 1e-5f;
    ModelConfig model = read_granite_decoder(c, keys);
    read_biases(c, model);
    read_granite_windows(c, model);
    return model;
  });
  add_sinks(family);
  return family;
}

}  // namespace vitrine
