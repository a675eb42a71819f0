// StableLM 3B and 2: LayerNorm, RoPE on a quarter of each head; in the 12B model a parallel block on one norm, and
// norms of q and k with a weight for each head. Sources: Bellagente et al. 2024; transformers, models/stablelm; the
// published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family stablelm_family() {
  Family family = decoder_family("stablelm", "StableLmForCausalLM", [](ConfigReader& c) {
    c.ignore("hidden_dropout");  // training
    DecoderKeys keys{.max_seq_len = 4096, .eps_key = "layer_norm_eps", .head_dim_key = ""};
    keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, true};
    keys.rope.fraction_key = "partial_rotary_factor";
    keys.rope.fraction = 0.25;
    ModelConfig model = read_decoder(c, keys);
    const bool bias = c.flag_or("use_qkv_bias", false), has_qk_norm = c.flag_or("qk_layernorm", false);
    if (has_qk_norm) norm_q_and_k(model, QkNormConfig::Over::head_own_weight);
    for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) {
      a->qkv_bias = bias;
      if (has_qk_norm) a->qk_norm->norm.bias = false;
    }
    if (!c.flag_or("use_parallel_residual", false)) return model;
    for (BlockConfig& block : model.blocks) share_norm(block);
    return model;
  });
  add_tensors(family.tensors, {{"{p}layers.{l}.self_attn.q_layernorm.norms.{h}", {"blocks.{l}.attn.q_norm"}},
                               {"{p}layers.{l}.self_attn.k_layernorm.norms.{h}", {"blocks.{l}.attn.k_norm"}}});
  return family;
}

}  // namespace vitrine
