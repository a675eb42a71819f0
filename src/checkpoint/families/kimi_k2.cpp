// Kimi K2: a DeepSeek V3 under another name. Sources: Kimi Team 2025; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family deepseek_v3_family();

Family kimi_k2_family() {
  Family family = deepseek_v3_family();
  family.model_type = "kimi_k2";
  family.others = {"KimiK2ForCausalLM"};
  return family;
}

}  // namespace vitrine
