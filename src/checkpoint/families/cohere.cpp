// Cohere's Command R and Command R+: a parallel block on one norm, interleaved RoPE, scaled logits; in Command R+ a
// norm of q and k with a weight for each head. Sources: transformers, models/cohere; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family cohere_family() {
  return decoder_family("cohere", "CohereForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_cohere_decoder(c, 500000);
    if (c.flag_or("use_qk_norm", false)) norm_q_and_k(model, QkNormConfig::Over::head_own_weight);
    return model;
  });
}

}  // namespace vitrine
