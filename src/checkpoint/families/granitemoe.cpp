// Granite 3 with experts: weights are the softmax over the chosen, the same function as a softmax over all that is
// divided by the sum of the chosen. Sources: Granite Team 2024; transformers, models/granitemoe; the published files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family granitemoe_family() {
  Family family = decoder_family("granitemoe", "GraniteMoeForCausalLM", [](ConfigReader& c) {
    ModelConfig model = read_granite_decoder(c);
    read_attention_bias(c, model);
    put_experts(model, read_experts(c, model, {.n_experts_key = "num_local_experts", .n_experts = 8, .top_k = 2}));
    return model;
  });
  add_tensors(family.tensors,
              {{"{p}layers.{l}.block_sparse_moe.router.layer", {"blocks.{l}.mlp.router"}},
               {"{p}layers.{l}.block_sparse_moe.input_linear",
                {"blocks.{l}.mlp.experts.{e}.w_gate", "blocks.{l}.mlp.experts.{e}.w_up"}},
               {"{p}layers.{l}.block_sparse_moe.output_linear", {"blocks.{l}.mlp.experts.{e}.w_down"}}});
  family.keys.push_back({"n_experts", "num_local_experts"});
  family.keys.push_back({"top_k", "num_experts_per_tok"});
  return family;
}

}  // namespace vitrine
