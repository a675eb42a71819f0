// Mixtral. Sources: Jiang et al. 2024; transformers, models/mixtral; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

Family mixtral_family() {
  Family family = decoder_family("mixtral", "MixtralForCausalLM", [](ConfigReader& c) {
    for (const char* key : {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"}) c.ignore(key);
    DecoderKeys keys{.max_seq_len = 131072};
    keys.norm.eps = 1e-5f;
    keys.rope.theta = 1e6;
    ModelConfig model = read_decoder(c, keys);
    read_window(c, model, std::nullopt);
    const MoeConfig moe{c.size_or("num_local_experts", 8), c.size_or("num_experts_per_tok", 2),
                        *find<DenseConfig>(model.blocks[0]), true, std::nullopt};
    for (BlockConfig& block : model.blocks) block.sublayers.back().what = moe;
    return model;
  });
  add_tensors(family.tensors,
              {{"{p}layers.{l}.block_sparse_moe.gate", {"blocks.{l}.mlp.router"}},
               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w1", {"blocks.{l}.mlp.experts.{e}.w_gate"}},
               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w3", {"blocks.{l}.mlp.experts.{e}.w_up"}},
               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w2", {"blocks.{l}.mlp.experts.{e}.w_down"}}});
  family.experts.router = "{p}layers.{l}.mlp.gate";
  family.balance_loss = 0.001;
  family.keys.push_back({"n_experts", "num_local_experts"});
  family.keys.push_back({"top_k", "num_experts_per_tok"});
  return family;
}

}  // namespace vitrine
