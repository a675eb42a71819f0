// Arcee (AFM): a Llama with a plain FFN and ReLU². Sources: Arcee AI 2025; So et al. 2021 (ReLU²); transformers,
// models/arcee; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family arcee_family() {
  return decoder_family("arcee", "ArceeForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 4096, .activation = "relu2", .gated = false};
    keys.norm.eps = 1e-5f;
    ModelConfig model = read_decoder(c, keys);
    read_biases(c, model);
    return model;
  });
}

}  // namespace vitrine
