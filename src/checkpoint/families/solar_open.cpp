// Solar Open: experts with DeepSeek V3's router in every layer, RoPE on whole heads. Sources: Upstage 2025;
// transformers, models/solar_open; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family solar_open_family() {
  return grouped_experts_family("solar_open", "SolarOpenForCausalLM", [](ConfigReader& c) {
    for (const char* key : {"intermediate_size", "first_k_dense_replace"}) c.ignore(key);  // there are no dense layers
    DecoderKeys keys{.max_seq_len = 131072, .d_ff_key = "moe_intermediate_size", .d_ff_factor = 1, .head_dim = 128};
    keys.norm.eps = 1e-5f;
    keys.rope.theta = 1e6;
    ModelConfig model = read_decoder(c, keys);
    set_qkv_bias(model, c.flag_or("attention_bias", false));
    put_experts(model, read_grouped_experts(c, model, {.n_experts = 128, .top_k = 8, .d_ff = 1280, .n_shared = 1}));
    return model;
  });
}

}  // namespace vitrine
