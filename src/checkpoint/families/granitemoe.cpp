// Granite 3 with experts: weights are the softmax over the chosen, the same function as a softmax over all that is
// divided by the sum of the chosen. Sources: Granite Team 2024; transformers, models/granitemoe; the published files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family granitemoe_family() { return granite_experts_family("granitemoe", "GraniteMoeForCausalLM"); }

}  // namespace vitrine
