// GLM 4.7 Flash: latent attention, one dense layer, then experts with DeepSeek V3's router. Sources: GLM-4.5 Team 2025;
// transformers, models/glm4_moe_lite; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family glm4_moe_lite_family() {
  const auto read = [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 202752};
    keys.norm.eps = 1e-5f;
    keys.rope.fraction_key = "partial_rotary_factor";
    const LatentKeys latent{.rank = 512, .q_rank = 768, .nope_dim = 192, .rope_dim = 64, .value_dim = 256};
    const ExpertKeys experts{.n_experts = 64, .top_k = 4, .d_ff = 1536, .n_shared = 1};
    return read_deepseek_v3(c, keys, latent, experts, 1, 1.8);
  };
  Family family = grouped_experts_family("glm4_moe_lite", "Glm4MoeLiteForCausalLM", read);
  add_latent_attention(family);
  return family;
}

}  // namespace vitrine
