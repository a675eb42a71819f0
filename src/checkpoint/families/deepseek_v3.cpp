// DeepSeek V3, R1, Moonlight and Kimi K2: latent attention, dense layers, then experts whose router has a correction
// and groups. Sources: DeepSeek-AI 2024 (DeepSeek-V3); transformers, models/deepseek_v3; the published config.json
// files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family deepseek_v3_family() {
  const auto read = [](ConfigReader& c) {
    const ExpertKeys experts{.n_experts = 256, .top_k = 8, .d_ff = 2048, .n_shared = 1, .n_group = 8, .top_group = 4};
    return read_deepseek_v3(c, {.max_seq_len = 4096}, {}, experts, 3, 2.5);
  };
  Family family = grouped_experts_family("deepseek_v3", "DeepseekV3ForCausalLM", read);
  add_latent_attention(family);
  return family;
}

}  // namespace vitrine
