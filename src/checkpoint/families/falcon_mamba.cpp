// Falcon Mamba: Mamba with norms without weights of its steps, B and C. Sources: TII 2024; transformers,
// models/falcon_mamba.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family falcon_mamba_family() {
  return mamba_like_family("falcon_mamba", "FalconMambaForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_mixer_stack(c, true);
    MambaConfig mamba = read_mamba(c, model);
    mamba.norm = NormConfig{NormConfig::Kind::rms, read_eps(c, "mixer_rms_eps", 1e-6)};
    mamba.norm->weight = false;
    put_mixers(model, mamba, std::vector<bool>(model.blocks.size(), true));
    return model;
  });
}

}  // namespace vitrine
