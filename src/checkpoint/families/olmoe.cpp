// OLMoE: experts in every layer, q and k normalized over all heads. Sources: Muennighoff et al. 2024; transformers,
// models/olmoe; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family olmoe_family() {
  Family family = decoder_family("olmoe", "OlmoeForCausalLM", [](ConfigReader& c) {
    c.refuse("clip_qkv");  // of q and k after their norm; no published file uses it
    DecoderKeys keys{.max_seq_len = 4096};
    keys.norm.eps = 1e-5f;
    ModelConfig model = read_decoder(c, keys);
    read_attention_bias(c, model);
    norm_q_and_k(model, QkNormConfig::Over::all_heads);
    MoeConfig moe = read_experts(c, model, {.n_experts = 64, .top_k = 8});
    moe.renormalize = c.flag_or("norm_topk_prob", false);
    put_experts(model, moe);
    return model;
  });
  add_experts(family);
  family.balance_loss = 0.01;
  return family;
}

}  // namespace vitrine
