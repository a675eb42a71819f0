// Phi 3: fused qkv and gate_up, LongRoPE. Sources: Abdin et al. 2024; transformers, models/phi3; the published
// config.json files.
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {

Family phi3_family() {
  Family family = decoder_family("phi3", "Phi3ForCausalLM", [](ConfigReader& c) {
    for (const char* key : {"resid_pdrop", "embd_pdrop"}) c.ignore(key);  // training
    DecoderKeys keys{.max_seq_len = 4096};
    keys.norm.eps = 1e-5f;
    keys.rope.fraction_key = "partial_rotary_factor";
    keys.rope.original_max_seq_len = c.size_or("original_max_position_embeddings", 4096);
    ModelConfig model = read_decoder(c, keys);
    for (const char* key : {"attention_bias", "mlp_bias", "lm_head_bias"}) c.refuse(key);  // this class has no biases
    for (const char* key :
         {"full_attn_mod", "interpolate_factor"}) {  // Phi-4 mini's, for a feature that was not published
      c.expect(c.size_or(key, 1) == 1, key, "1");
    }
    read_window(c, model, std::nullopt);
    return model;
  });
  add_tensors(family.tensors, {{"{p}layers.{l}.self_attn.qkv_proj",
                                {"blocks.{l}.attn.wq", "blocks.{l}.attn.wk", "blocks.{l}.attn.wv"}}});
  add_gate_up(family);
  family.tasks = decoder_classes(32000);
  return family;
}

}  // namespace vitrine
