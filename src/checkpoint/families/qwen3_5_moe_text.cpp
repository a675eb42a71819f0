// Qwen 3.5 and 3.6 with experts, the text half. Sources: Qwen Team 2026; transformers, models/qwen3_5_moe; the
// published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_qwen3_5_moe(ConfigReader& c) {
  ModelConfig model = read_qwen_hybrid(c, DeltaNetConfig::Projections::joined, "moe_intermediate_size");
  read_qwen_experts(c, model, 256, 8, 512, 512);
  for (MoeConfig* moe : every<MoeConfig>(model.blocks)) moe->renormalize = true;
  return model;
}

}  // namespace

Family qwen3_5_moe_text_family() {
  Family family = decoder_family("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", read_qwen3_5_moe);
  add_experts(family);
  add_stacked_experts(family, "{p}layers.{l}.mlp.experts.gate_up_proj", "{p}layers.{l}.mlp.experts.down_proj");
  add_qwen_shared_expert(family);
  add_gated_queries(family);
  add_qwen3_5_delta_net(family);
  family.balance_loss = 0.001;
  return family;
}

}  // namespace vitrine
