// Hunyuan with experts: norms of q and k after RoPE, whose theta a fixed alpha stretches; a softmax router and a shared
// expert. Sources: Tencent Hunyuan Team 2025; transformers, models/hunyuan_v1_moe.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family hunyuan_v1_moe_family() {
  Family family = decoder_family("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_hunyuan_decoder(c);
    MoeConfig moe = read_experts(c, model, {.n_experts = 1, .top_k_key = "moe_topk", .top_k = 1});
    moe.shared = moe.expert;
    moe.shared_gate = false;
    put_experts(model, moe);
    return model;
  });
  add_experts(family, "num_experts", "moe_topk");
  add_hunyuan_norms(family);
  add_tensors(family.tensors, {{"{p}layers.{l}.mlp.gate.wg", {"blocks.{l}.mlp.router"}},
                               {"{p}layers.{l}.mlp.shared_mlp.gate_proj", {"blocks.{l}.mlp.shared.w_gate"}},
                               {"{p}layers.{l}.mlp.shared_mlp.up_proj", {"blocks.{l}.mlp.shared.w_up"}},
                               {"{p}layers.{l}.mlp.shared_mlp.down_proj", {"blocks.{l}.mlp.shared.w_down"}}});
  family.tasks = decoder_classes(0);
  return family;
}

}  // namespace vitrine
