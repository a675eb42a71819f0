// Llama 1, 2 and 3.x. Sources: Touvron et al. 2023, Llama Team 2024; transformers, models/llama; the published
// config.json files.
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_llama(ConfigReader& c) {
  c.ignore("max_sequence_length");  // early conversions wrote max_position_embeddings twice
  c.ignore("is_llama_config");      // SmolLM 2 and what else was trained with nanotron say so
  c.refuse("rope_interleaved");     // of nanotron, too
  ModelConfig model = read_decoder(c, {});
  const bool attention_bias = c.flag_or("attention_bias", false), mlp_bias = c.flag_or("mlp_bias", false);
  for (BlockConfig& block : model.blocks) {
    block.attention().qkv_bias = block.attention().out_bias = attention_bias;
    std::get<DenseConfig>(block.ffn).bias = mlp_bias;
  }
  return model;
}

}  // namespace

Family llama_family() {
  Family family;
  family.model_type = "llama";
  family.architectures = {"LlamaForCausalLM"};
  family.read_config = read_llama;
  use_decoder_names(family);
  add_pre_norms(family);
  return family;
}

}  // namespace vitrine
