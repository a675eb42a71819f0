// Qwen3-Next: delta nets and gated attention, with experts. Sources: Qwen Team 2025; transformers, models/qwen3_next;
// the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_qwen3_next(ConfigReader& c) {
  ModelConfig model = read_qwen_hybrid(c, DeltaNetConfig::Projections::by_key_head);
  read_qwen_experts(c, model, 512, 10, 512, 512);
  const bool renormalize = c.flag_or("norm_topk_prob", true);
  for (MoeConfig* moe : every<MoeConfig>(model.blocks)) moe->renormalize = renormalize;
  return model;
}

}  // namespace

Family qwen3_next_family() {
  Family family = decoder_family("qwen3_next", "Qwen3NextForCausalLM", read_qwen3_next);
  add_experts(family);
  add_qwen_shared_expert(family);
  add_gated_queries(family);
  add_delta_net(family, "linear_attn");
  add_tensors(family.tensors, {{"{p}layers.{l}.linear_attn.in_proj_qkvz", {"blocks.{l}.linear_attn.w_qkvz"}},
                               {"{p}layers.{l}.linear_attn.in_proj_ba", {"blocks.{l}.linear_attn.w_ba"}},
                               convolution_rule("{p}layers.{l}.linear_attn.conv1d", "blocks.{l}.linear_attn.conv"),
                               {"{p}layers.{l}.linear_attn.norm", {"blocks.{l}.linear_attn.norm"}},
                               {"{p}layers.{l}.linear_attn.out_proj", {"blocks.{l}.linear_attn.wo"}}});
  family.balance_loss = 0.001;
  return family;
}

}  // namespace vitrine
