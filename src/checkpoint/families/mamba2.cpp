// Mamba-2. Sources: Dao & Gu 2024; transformers, models/mamba2; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family mamba2_family() {
  Family family = mamba_like_family("mamba2", "Mamba2ForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_mixer_stack(c, false);
    const Mamba2Keys keys{.n_heads = "num_heads",
                          .head_dim = "head_dim",
                          .n_groups = "n_groups",
                          .d_state = "state_size",
                          .d_conv = "conv_kernel",
                          .expand = "expand",
                          .conv_bias = "use_conv_bias",
                          .bias = "use_bias",
                          .groups = 8,
                          .state = 128};
    put_mixers(model, read_mamba2(c, model, keys), std::vector<bool>(model.blocks.size(), true));
    return model;
  });
  family.keys.push_back({"n_state_heads", "num_heads"});
  family.keys.push_back({"n_state_groups", "n_groups"});
  return family;
}

}  // namespace vitrine
