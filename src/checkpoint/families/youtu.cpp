// Youtu-LLM: a Llama with latent attention. Sources: Tencent 2025; transformers, models/youtu; the published
// config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family youtu_family() {
  const auto read = [](ConfigReader& c) {
    c.ignore("embedding_initializer_range");  // training
    return read_latent_decoder(c, {.max_seq_len = 131072, .tied = true}, {});
  };
  Family family = decoder_family("youtu", "YoutuForCausalLM", read);
  add_latent_attention(family);
  return family;
}

}  // namespace vitrine
