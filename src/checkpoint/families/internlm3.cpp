// InternLM 3: a Llama. Sources: InternLM Team 2025; transformers, models/internlm3; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family internlm3_family() {
  Family family = decoder_family("internlm3", "LlamaForCausalLM", [](ConfigReader& c) {
    DecoderKeys keys{.max_seq_len = 32768, .head_dim = 128};
    keys.norm.eps = 1e-5f;
    ModelConfig model = read_decoder(c, keys);
    // the published names, and those of transformers
    const bool attention = c.flag_or("qkv_bias", c.flag_or("attention_bias", false));
    const bool others = c.flag_or("bias", c.flag_or("mlp_bias", false));
    if (attention != others) {
      throw Unsupported(c.where(), "expected qkv_bias and bias to be equal, got {} and {}", attention, others);
    }
    set_biases(model, attention, others);
    return model;
  });
  family.others = {"InternLM3ForCausalLM"};
  return family;
}

}  // namespace vitrine
