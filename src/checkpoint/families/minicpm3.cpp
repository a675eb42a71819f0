// MiniCPM 3: a Llama with latent attention, whose pairs of RoPE are halves, and three multipliers. Sources: Hu et al.
// 2024; transformers, models/minicpm3; the published config.json files.
#include <cmath>

#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family minicpm3_family() {
  const auto read = [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 32768, .tied = true};
    keys.norm.eps = 1e-5f;
    const LatentKeys latent{
        .rank = 256, .q_rank = 768, .nope_dim = 64, .rope_dim = 32, .value_dim = std::nullopt, .pairs = false};
    ModelConfig model = read_latent_decoder(c, keys, latent);
    const bool mlp_bias = c.flag_or("mlp_bias", false);
    for (DenseConfig* dense : every<DenseConfig>(model.blocks)) dense->bias = mlp_bias;
    // null is no factor
    const auto number = [&](const char* key, double otherwise, double none) {
      return c.contains(key) ? c.optional_number(key).value_or(none) : otherwise;
    };
    const auto root = std::sqrt(static_cast<double>(model.blocks.size())), d = static_cast<double>(model.d_model);
    model.embedding.scale = static_cast<float>(number("scale_emb", 12, 1));
    model.head.scale = static_cast<float>(number("dim_model_base", 256, d) / d);
    const auto scale = static_cast<float>(number("scale_depth", 1.4, root) / root);
    for (BlockConfig& block : model.blocks) {
      for (Sublayer& sublayer : block.sublayers) sublayer.scale = scale;
    }
    return model;
  };
  Family family = decoder_family("minicpm3", "MiniCPM3ForCausalLM", read);
  add_latent_attention(family);
  return family;
}

}  // namespace vitrine
