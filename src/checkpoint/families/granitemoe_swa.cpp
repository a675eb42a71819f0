// Granite with windows and experts: Granite 3's experts in a Granite with windows, sinks and a RoPE for each layer.
// Sources: Granite Team 2026; transformers, models/granitemoe_swa.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family granitemoe_swa_family() {
  Family family = decoder_family("granitemoe_swa", "GraniteMoeSWAForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_granite_decoder(c);
    read_attention_bias(c, model);
    read_granite_windows(c, model);
    read_granite_experts(c, model);
    return model;
  });
  add_granite_experts(family);
  add_tensors(family.tensors, {{"{p}layers.{l}.block_sparse_moe.router", {"blocks.{l}.mlp.router"}}});
  add_stacked_experts(family, family.experts.gate_up, family.experts.down);
  add_sinks(family);
  return family;
}

}  // namespace vitrine
