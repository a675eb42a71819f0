// GLM 4 of 2024 (GLM-4-9B): interleaved RoPE on half of each head, biases of q, k and v. Sources: GLM Team 2024;
// transformers, models/glm; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family glm_family() {
  Family family = decoder_family("glm", "GlmForCausalLM", read_glm_decoder);
  add_gate_up(family);
  family.tasks = decoder_classes(151329);
  return family;
}

}  // namespace vitrine
