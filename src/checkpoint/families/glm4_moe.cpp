// GLM 4.5 to 4.7: RoPE on half of each head, dense layers, then experts with DeepSeek V3's router. Sources: GLM-4.5
// Team 2025; transformers, models/glm4_moe; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family glm4_moe_family() {
  return grouped_experts_family("glm4_moe", "Glm4MoeForCausalLM", [](ConfigReader& c) {
    for (const char* key : {"num_nextn_predict_layers", "num_mtp_layers"}) c.ignore(key);  // not run
    DecoderKeys keys{.max_seq_len = 131072};
    keys.norm.eps = 1e-5f;
    keys.rope.fraction_key = "partial_rotary_factor";
    keys.rope.fraction = 0.5;
    ModelConfig model = read_decoder(c, keys);
    set_qkv_bias(model, c.flag_or("attention_bias", false));
    if (c.flag_or("use_qk_norm", false)) norm_q_and_k(model, QkNormConfig::Over::head);
    const MoeConfig moe = read_grouped_experts(c, model, {.n_experts = 128, .top_k = 8, .d_ff = 1408, .n_shared = 1});
    put_experts(model, moe, read_first_sparse_layer(c, 1));
    return model;
  });
}

}  // namespace vitrine
