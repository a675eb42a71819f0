// GPT-J: a parallel block on one norm, interleaved RoPE on a part of each head, biases of the FFN and of the head.
// Sources: Wang & Komatsuzaki 2021; transformers, models/gptj; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family gptj_family() {
  Family family = gptj_like_family("gptj", "GPTJForCausalLM", read_gptj_decoder);
  add_tensors(family.tensors, {{"{p}h.{l}.attn.q_proj", {"blocks.{l}.attn.wq"}},
                               {"{p}h.{l}.attn.k_proj", {"blocks.{l}.attn.wk"}},
                               {"{p}h.{l}.attn.v_proj", {"blocks.{l}.attn.wv"}}});
  return family;
}

}  // namespace vitrine
