// Granite 4: Mamba-2 and attention, with or without positions, in the layers that the config names; Granite 3's
// multipliers; a shared FFN next to the experts, or alone. Sources: Granite Team 2025; transformers,
// models/granitemoehybrid; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_granite_hybrid(ConfigReader& c) {
  DecoderKeys keys{};
  keys.has_rope = c.text_or("position_embedding_type", "nope") == "rope";
  const bool is_dense = c.contains("num_local_experts") && c.number_or("num_local_experts", 0) == 0;
  if (is_dense) {
    keys.d_ff_key = "shared_intermediate_size";
    for (const char* key : {"num_experts_per_tok", "output_router_logits", "router_aux_loss_coef"}) c.ignore(key);
  }
  if (!keys.has_rope) {
    for (const char* key : {"rope_parameters", "rope_scaling", "rope_theta"}) c.ignore(key);
  }
  for (const char* key : {"init_method", "normalization_function", "mlp_bias"}) c.ignore(key);  // read nowhere
  ModelConfig model = read_granite_decoder(c, keys);
  read_attention_bias(c, model);
  if (!is_dense) read_granite_experts(c, model);
  const auto all = [](std::size_t) { return true; };
  put_mixers(model, read_mamba2(c, model, {}), read_state_layers(c, model.blocks.size(), all, "mamba"));
  return model;
}

bool is_dense_block(const BlockConfig& block) { return find<DenseConfig>(block) != nullptr; }

}  // namespace

Family granitemoehybrid_family() {
  Family family = decoder_family("granitemoehybrid", "GraniteMoeHybridForCausalLM", read_granite_hybrid);
  add_granite_experts(family);
  add_mamba(family, "mamba");
  TensorRule both{"{p}layers.{l}.shared_mlp.input_linear", {"blocks.{l}.mlp.w_gate", "blocks.{l}.mlp.w_up"}};
  TensorRule down{"{p}layers.{l}.shared_mlp.output_linear", {"blocks.{l}.mlp.w_down"}};
  both.applies = down.applies = is_dense_block;
  add_tensors(family.tensors, {both, down});
  return family;
}

}  // namespace vitrine
