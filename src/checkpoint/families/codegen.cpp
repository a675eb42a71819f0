// CodeGen: GPT-J with one tensor for q, v and k, whose rows are those of four quarters of the heads in turn. Sources:
// Nijkamp et al. 2022; transformers, models/codegen; the published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family codegen_family() {
  Family family = gptj_like_family("codegen", "CodeGenForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_gptj_decoder(c);
    const std::int64_t n_heads = attention_of(model, 0)->n_heads;
    if (n_heads % 4 != 0) {
      throw BadCheckpoint(c.where(), "n_head: expected a multiple of 4, the parts of qkv_proj, got {}", n_heads);
    }
    return model;
  });
  add_tensors(family.tensors, {{"{p}h.{l}.attn.qkv_proj",
                                {"blocks.{l}.attn.wq", "blocks.{l}.attn.wv", "blocks.{l}.attn.wk"},
                                kAsIs,
                                Rows::by_quarter}});
  family.ignored.push_back("{p}h.{l}.attn.causal_mask");
  return family;
}

}  // namespace vitrine
