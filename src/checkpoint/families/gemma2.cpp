// Gemma 2. Sources: Gemma Team 2024b; transformers, models/gemma2; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family gemma2_family() {
  Family family = decoder_family("gemma2", "Gemma2ForCausalLM", [](ConfigReader& c) {
    c.ignore("hidden_act");  // hidden_activation decides
    c.ignore("cache_implementation");
    c.ignore("sliding_window_size");  // sliding_window again
    const float score_scale = inverse_sqrt(c.positive_or("query_pre_attn_scalar", 256));
    ModelConfig model = read_gemma_decoder(
        c, {.max_seq_len = 8192, .activation = "gelu_pytorch_tanh", .activation_key = "hidden_activation"});
    model.head.softcap = read_softcap(c, "final_logit_softcapping", 30.0);
    const std::optional<float> softcap = read_softcap(c, "attn_logit_softcapping", 50.0);
    const std::int64_t window = c.size_or("sliding_window", 4096);
    const std::vector<bool> sliding = read_sliding_layers(c, model.blocks.size(), 2);
    for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
      AttentionConfig& attention = *find<AttentionConfig>(model.blocks[layer]);
      attention.score_scale = score_scale;
      attention.softcap = softcap;
      if (sliding[layer]) attention.window = window;
      for (Sublayer& sublayer : model.blocks[layer].sublayers) sublayer.norms.post = sublayer.norms.pre;
    }
    return model;
  });
  add_four_norms(family);
  family.tasks = decoder_classes(0);
  return family;
}

}  // namespace vitrine
