// Mamba. Sources: Gu & Dao 2023; transformers, models/mamba; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family mamba_family() {
  return mamba_like_family("mamba", "MambaForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_mixer_stack(c, true);
    put_mixers(model, read_mamba(c, model), std::vector<bool>(model.blocks.size(), true));
    return model;
  });
}

}  // namespace vitrine
