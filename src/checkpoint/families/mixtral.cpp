// Mixtral. Sources: Jiang et al. 2024; transformers, models/mixtral; the published config.json files.
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_mixtral(ConfigReader& c) {
  for (const char* key : {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"}) c.ignore(key);
  DecoderKeys keys{.max_seq_len = 131072};
  keys.norm.eps = 1e-5f;
  keys.rope.theta = 1e6;
  ModelConfig model = read_decoder(c, keys);
  read_window(c, model, std::nullopt);
  const MoeConfig moe{c.size_or("num_local_experts", 8), c.size_or("num_experts_per_tok", 2),
                      std::get<DenseConfig>(model.blocks[0].ffn), true, std::nullopt};
  for (BlockConfig& block : model.blocks) block.ffn = moe;
  return model;
}

}  // namespace

Family mixtral_family() {
  Family family;
  family.model_type = "mixtral";
  family.architectures = {"MixtralForCausalLM"};
  family.read_config = read_mixtral;
  use_decoder_names(family);
  add_pre_norms(family);
  add_tensors(family,
              {{"{p}layers.{l}.block_sparse_moe.gate.weight", {"blocks.{l}.mlp.router.weight"}},
               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w1.weight", {"blocks.{l}.mlp.experts.{e}.w_gate.weight"}},
               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w3.weight", {"blocks.{l}.mlp.experts.{e}.w_up.weight"}},
               {"{p}layers.{l}.block_sparse_moe.experts.{e}.w2.weight", {"blocks.{l}.mlp.experts.{e}.w_down.weight"}}});
  family.keys.push_back({"n_experts", "num_local_experts"});
  family.keys.push_back({"top_k", "num_experts_per_tok"});
  return family;
}

}  // namespace vitrine
