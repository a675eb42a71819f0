// Helium: a Llama with interleaved RoPE. Sources: Kyutai 2025; transformers, models/helium; the published config.json
// files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family helium_family() {
  Family family = decoder_family("helium", "HeliumForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 4096, .head_dim = 128};
    keys.norm.eps = 1e-8f;
    keys.rope.layout = RopeConfig::Layout::interleaved;
    keys.rope.theta = 100000;
    ModelConfig model = read_decoder(c, keys);
    read_biases(c, model);
    for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) {
      a->out_bias = false;
      if (a->n_heads * a->head_dim == model.d_model) continue;
      throw BadCheckpoint(c.where(), "head_dim: expected hidden_size / num_attention_heads, got {} for {} / {}",
                          a->head_dim, model.d_model, a->n_heads);
    }
    return model;
  });
  family.tasks = decoder_classes(3);
  return family;
}

}  // namespace vitrine
