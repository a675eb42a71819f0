// GLM 4 of 2025 (GLM-4-0414): that of 2024, with norms after the sublayers, too. Sources: transformers, models/glm4;
// the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family glm4_family() {
  Family family = decoder_family("glm4", "Glm4ForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_glm_decoder(c);
    for (BlockConfig& block : model.blocks) {
      for (Sublayer& sublayer : block.sublayers) sublayer.norms.post = model.final_norm;
    }
    return model;
  });
  add_gate_up(family);
  add_tensors(family.tensors, {{"{p}layers.{l}.post_self_attn_layernorm", {"blocks.{l}.ln1_post"}},
                               {"{p}layers.{l}.post_mlp_layernorm", {"blocks.{l}.ln2_post"}}});
  family.tasks = decoder_classes(151329);
  return family;
}

}  // namespace vitrine
