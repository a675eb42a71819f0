// ERNIE 4.5, dense: a Llama with interleaved RoPE. Sources: Baidu 2025; transformers, models/ernie4_5; the published
// config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family ernie4_5_family() {
  Family family = decoder_family("ernie4_5", "Ernie4_5ForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 131072, .tied = true, .head_dim = 128};
    keys.norm.eps = 1e-5f;
    keys.rope.layout = RopeConfig::Layout::interleaved;
    keys.rope.theta = 500000;
    ModelConfig model = read_decoder(c, keys);
    const bool bias = c.flag_or("use_bias", false);
    set_biases(model, bias, bias);
    return model;
  });
  family.others = {"Ernie4_5_ForCausalLM"};  // in the first published files
  return family;
}

}  // namespace vitrine
