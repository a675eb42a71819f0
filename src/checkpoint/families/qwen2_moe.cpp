// Qwen 1.5 and 2 with experts, one of them shared by all tokens. Sources: Qwen Team 2024; transformers,
// models/qwen2_moe; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family qwen2_moe_family() {
  Family family = decoder_family("qwen2_moe", "Qwen2MoeForCausalLM", [](ConfigReader& c) {
    c.refuse("use_sliding_window");  // every second layer below max_window_layers; no published file uses it
    for (const char* key : {"sliding_window", "max_window_layers"}) c.ignore(key);
    ModelConfig model = read_decoder(c, {.max_seq_len = 32768});
    for (const bool slides : read_sliding_layers(c, model.blocks.size())) {
      c.expect(!slides, "layer_types", "full_attention in all layers");
    }
    set_qkv_bias(model, c.flag_or("qkv_bias", true));
    read_qwen_experts(c, model, 60, 4, 1408, 5632);
    return model;
  });
  add_experts(family);
  family.balance_loss = 0.001;
  add_tensors(family.tensors, {{"{p}layers.{l}.mlp.shared_expert.gate_proj", {"blocks.{l}.mlp.shared.w_gate"}},
                               {"{p}layers.{l}.mlp.shared_expert.up_proj", {"blocks.{l}.mlp.shared.w_up"}},
                               {"{p}layers.{l}.mlp.shared_expert.down_proj", {"blocks.{l}.mlp.shared.w_down"}},
                               {"{p}layers.{l}.mlp.shared_expert_gate", {"blocks.{l}.mlp.shared_gate"}}});
  return family;
}

}  // namespace vitrine
