// LFM2 with experts: dense layers, then experts with a sigmoid router, whose bias only chooses. Sources: Liquid AI
// 2025; transformers, models/lfm2_moe.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_lfm2_moe(ConfigReader& c) {
  ModelConfig model = read_lfm2_decoder(c);
  MoeConfig moe =
      read_experts(c, model, {.n_experts = 32, .top_k = 4, .d_ff_key = "moe_intermediate_size", .d_ff = 1792});
  moe.router.score = RouterConfig::Score::sigmoid;
  moe.router.correction = c.flag_or("use_expert_bias", true);
  moe.router.scale = static_cast<float>(c.number_or("routed_scaling_factor", 1));
  moe.renormalize = c.flag_or("norm_topk_prob", true);
  moe.router.eps = moe.renormalize ? 1e-6f : 0.0f;
  const double first = c.number_or("num_dense_layers", 2);
  put_experts(model, moe, [first](std::int64_t layer) { return static_cast<double>(layer) >= first; });
  return model;
}

}  // namespace

Family lfm2_moe_family() {
  Family family = decoder_family("lfm2_moe", "Lfm2MoeForCausalLM", read_lfm2_moe);
  add_experts(family);
  add_lfm2(family);
  add_correction(family, "{p}layers.{l}.feed_forward.expert_bias");
  add_tensors(family.tensors, {{"{p}layers.{l}.feed_forward.gate", {"blocks.{l}.mlp.router"}},
                               {"{p}layers.{l}.feed_forward.experts.{e}.w1", {"blocks.{l}.mlp.experts.{e}.w_gate"}},
                               {"{p}layers.{l}.feed_forward.experts.{e}.w3", {"blocks.{l}.mlp.experts.{e}.w_up"}},
                               {"{p}layers.{l}.feed_forward.experts.{e}.w2", {"blocks.{l}.mlp.experts.{e}.w_down"}}});
  return family;
}

}  // namespace vitrine
