// EXAONE with experts: q and k normalized, full layers without RoPE, dense layers, then experts with DeepSeek V3's
// router. Sources: LG AI Research 2025; transformers, models/exaone_moe.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family exaone_moe_family() {
  Family family = decoder_family("exaone_moe", "ExaoneMoeForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{};
    keys.norm.eps = 1e-5f;
    ModelConfig model = read_decoder(c, keys);
    norm_q_and_k(model, QkNormConfig::Over::head);
    read_exaone_windows(c, model);
    const MoeConfig moe = read_grouped_experts(c, model,
                                               {.n_experts_key = "num_experts",
                                                .n_experts = 64,
                                                .top_k = 8,
                                                .d_ff = 1024,
                                                .n_shared_key = "num_shared_experts",
                                                .n_shared = 1},
                                               true, 2.5);
    put_experts(model, moe, read_sparse_layers(c, model.blocks.size(), 1));
    return model;
  });
  add_experts(family);
  add_shared_experts(family);
  add_correction(family, "{p}layers.{l}.mlp.e_score_correction_bias");
  return family;
}

}  // namespace vitrine
