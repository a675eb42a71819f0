// EXAONE 4: norms after the sublayers, q and k normalized; in the 32B model layers with a window and RoPE, and full
// layers without either. Sources: LG AI Research 2025; transformers, models/exaone4; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

/// Without a size of the window, all layers are full and have RoPE.
void read_exaone_windows(ConfigReader& c, ModelConfig& model) {
  const auto window = c.contains("sliding_window") ? c.optional_size("sliding_window") : 4096;
  const bool is_listed = c.has("layer_types");
  if (is_listed || !window) c.ignore("sliding_window_pattern");  // "LLLG", which layer_types repeats
  const std::vector<bool> sliding =
      read_sliding_layers(c, model.blocks.size(), is_listed || !window ? 1 : c.size_or("sliding_window_pattern", 4));
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    AttentionConfig& attention = *find<AttentionConfig>(model.blocks[layer]);
    if (sliding[layer] && !window) {
      throw BadCheckpoint(c.where(), "layer_types: sliding_attention contradicts sliding_window, which is null");
    }
    if (sliding[layer]) {
      attention.window = window;
    } else if (window) {
      attention.rope.reset();
    }
  }
}

}  // namespace

Family exaone4_family() {
  Family family = decoder_family("exaone4", "Exaone4ForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{};
    keys.norm.eps = 1e-5f;
    ModelConfig model = read_decoder(c, keys);
    norm_q_and_k(model, QkNormConfig::Over::head);
    norm_after_sublayers(model);
    read_exaone_windows(c, model);
    return model;
  });
  add_norms_after(family);
  return family;
}

}  // namespace vitrine
