// Granite 3: a Llama with four multipliers. Sources: Granite Team 2024; transformers, models/granite; the published
// config.json files.
#include "base/error.h"
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

float read_multiplier(ConfigReader& c, std::string_view key) {
  const double value = c.number_or(key, 1.0);
  if (!(value > 0)) throw BadCheckpoint(c.where(), "{} must be above 0, got {}", key, value);
  return static_cast<float>(value);
}

ModelConfig read_granite(ConfigReader& c) {
  ModelConfig model = read_decoder(c, {});
  model.embedding.scale = read_multiplier(c, "embedding_multiplier");
  model.head.scale = 1.0f / read_multiplier(c, "logits_scaling");
  const float score_scale = read_multiplier(c, "attention_multiplier");
  const float residual_scale = read_multiplier(c, "residual_multiplier");
  const bool attention_bias = c.flag_or("attention_bias", false), mlp_bias = c.flag_or("mlp_bias", false);
  for (BlockConfig& block : model.blocks) {
    block.residual_scale = residual_scale;
    block.attention().score_scale = score_scale;
    block.attention().qkv_bias = block.attention().out_bias = attention_bias;
    std::get<DenseConfig>(block.ffn).bias = mlp_bias;
  }
  return model;
}

}  // namespace

Family granite_family() {
  Family family;
  family.model_type = "granite";
  family.architectures = {"GraniteForCausalLM"};
  family.read_config = read_granite;
  use_decoder_names(family);
  add_pre_norms(family);
  return family;
}

}  // namespace vitrine
