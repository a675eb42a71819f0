// Qwen 3 with experts. Sources: Qwen Team 2025; transformers, models/qwen3_moe; the published config.json files.
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_qwen3_moe(ConfigReader& c) {
  c.ignore("max_window_layers");  // stands in the published files; a window would be that of all layers
  ModelConfig model = read_decoder(c, {.max_seq_len = 32768});
  norm_heads(c, model);
  if (c.flag_or("use_sliding_window", false)) {
    read_window(c, model, 4096);
  } else {
    c.ignore("sliding_window");
  }
  MoeConfig moe;
  moe.n_experts = c.size_or("num_experts", c.size_or("num_local_experts", 128));
  moe.top_k = c.size_or("num_experts_per_tok", 8);
  moe.renormalize = c.flag_or("norm_topk_prob", false);
  moe.expert = std::get<DenseConfig>(model.blocks[0].ffn);
  moe.expert.d_ff = c.size_or("moe_intermediate_size", 768);
  read_experts_of_some_layers(c, model, moe);
  return model;
}

}  // namespace

Family qwen3_moe_family() {
  Family family;
  family.model_type = "qwen3_moe";
  family.architectures = {"Qwen3MoeForCausalLM"};
  family.read_config = read_qwen3_moe;
  use_decoder_names(family);
  add_pre_norms(family);
  add_qk_norms(family);
  add_experts(family);
  return family;
}

}  // namespace vitrine
