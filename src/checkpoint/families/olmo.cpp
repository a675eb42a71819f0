// OLMo 1: LayerNorm without a weight; q, k and v may be clipped. Sources: Groeneveld et al. 2024; transformers,
// models/olmo; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family olmo_family() {
  Family family = decoder_family("olmo", "OlmoForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.eps_key = "layer_norm_eps", .head_dim_key = ""};
    keys.norm = {NormConfig::Kind::layer, 1e-5f, 0.0f, false, false};
    ModelConfig model = read_decoder(c, keys);
    if (model.final_norm->eps != 1e-5f) {  // a key that transformers does not read
      throw Unsupported(c.where(), "layer_norm_eps: expected 1e-5, got {}", model.final_norm->eps);
    }
    read_attention_bias(c, model);
    const std::optional<float> clip = read_softcap(c, "clip_qkv", std::nullopt);
    for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) a->qkv_clip = clip;
    return model;
  });
  family.tasks = decoder_classes(1);
  return family;
}

}  // namespace vitrine
