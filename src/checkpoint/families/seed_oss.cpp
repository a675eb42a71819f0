// Seed-OSS: a Llama with biases of q, k and v. Sources: ByteDance Seed Team 2025; transformers, models/seed_oss; the
// published config.json files.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family seed_oss_family() {
  Family family = decoder_family("seed_oss", "SeedOssForCausalLM", [](ConfigReader& c) {
    c.ignore("residual_dropout");  // training
    ModelConfig model = read_decoder(c, {.max_seq_len = 524288, .head_dim = 128});
    set_biases(model, c.flag_or("attention_bias", true), c.flag_or("mlp_bias", false));
    const bool out_bias = c.flag_or("attention_out_bias", false);
    for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) a->out_bias = out_bias;
    return model;
  });
  family.tasks = decoder_classes(1);
  return family;
}

}  // namespace vitrine
