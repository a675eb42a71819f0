// Granite 3 with experts, one of which every token uses. Sources: Granite Team 2024; transformers,
// models/granitemoeshared.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family granitemoeshared_family() { return granite_experts_family("granitemoeshared", "GraniteMoeSharedForCausalLM"); }

}  // namespace vitrine
