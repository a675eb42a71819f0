// Hunyuan, dense: norms of q and k after RoPE, whose theta a fixed alpha stretches. Sources: Tencent Hunyuan Team 2025;
// transformers, models/hunyuan_v1_dense; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family hunyuan_v1_dense_family() {
  Family family = decoder_family("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", read_hunyuan_decoder);
  add_hunyuan_norms(family);
  family.tasks = decoder_classes(0);
  return family;
}

}  // namespace vitrine
