// Qwen 1.5 and 2 with experts, one of them shared by all tokens. Sources: Qwen Team 2024; transformers,
// models/qwen2_moe; the published config.json files.
#include "base/error.h"
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_qwen2_moe(ConfigReader& c) {
  c.refuse("use_sliding_window");  // every second layer below max_window_layers; no published file uses it
  for (const char* key : {"sliding_window", "max_window_layers"}) c.ignore(key);
  ModelConfig model = read_decoder(c, {.max_seq_len = 32768});
  for (const bool slides : read_sliding_layers(c, model.blocks.size())) {
    if (slides) throw Unsupported(c.where(), "layer_types: sliding_attention is not supported for this family");
  }
  const bool bias = c.flag_or("qkv_bias", true);
  for (BlockConfig& block : model.blocks) block.attention.qkv_bias = bias;
  MoeConfig moe;
  moe.n_experts = c.size_or("num_experts", 60);
  moe.top_k = c.size_or("num_experts_per_tok", 4);
  moe.renormalize = c.flag_or("norm_topk_prob", false);
  moe.expert = std::get<DenseConfig>(model.blocks[0].ffn);
  moe.shared = moe.expert;
  moe.expert.d_ff = c.size_or("moe_intermediate_size", 1408);
  moe.shared->d_ff = c.size_or("shared_expert_intermediate_size", 5632);
  read_experts_of_some_layers(c, model, moe);
  return model;
}

}  // namespace

Family qwen2_moe_family() {
  Family family;
  family.model_type = "qwen2_moe";
  family.architectures = {"Qwen2MoeForCausalLM"};
  family.read_config = read_qwen2_moe;
  use_decoder_names(family);
  add_pre_norms(family);
  add_experts(family);
  add_tensors(family, {{"{p}layers.{l}.mlp.shared_expert.gate_proj.weight", {"blocks.{l}.mlp.shared.w_gate.weight"}},
                       {"{p}layers.{l}.mlp.shared_expert.up_proj.weight", {"blocks.{l}.mlp.shared.w_up.weight"}},
                       {"{p}layers.{l}.mlp.shared_expert.down_proj.weight", {"blocks.{l}.mlp.shared.w_down.weight"}},
                       {"{p}layers.{l}.mlp.shared_expert_gate.weight", {"blocks.{l}.mlp.shared_gate.weight"}}});
  return family;
}

}  // namespace vitrine
