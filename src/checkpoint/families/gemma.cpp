// Gemma 1. Sources: Gemma Team 2024a; transformers, models/gemma; the published config.json files.
#include "base/error.h"
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

/// The published files say "gelu" and mean the tanh form: the model was trained with it (gemma_pytorch,
/// gemma/model.py).
ModelConfig read_gemma(ConfigReader& c) {
  std::string act = c.text_or("hidden_act", "gelu_pytorch_tanh");
  if (act == "gelu") act = "gelu_pytorch_tanh";
  const std::string newer = c.text_or("hidden_activation", act);
  if (newer != act && newer != "gelu") {
    throw Unsupported(c.where(), "hidden_act and hidden_activation contradict each other: {} and {}", act, newer);
  }
  ModelConfig model = read_gemma_decoder(c, {.max_seq_len = 8192});
  for (BlockConfig& block : model.blocks) std::get<DenseConfig>(block.ffn).activation = activation_named(c, act);
  return model;
}

}  // namespace

Family gemma_family() {
  Family family;
  family.model_type = "gemma";
  family.architectures = {"GemmaForCausalLM"};
  family.read_config = read_gemma;
  use_decoder_names(family);
  family.tensors.push_back({"{p}layers.{l}.post_attention_layernorm.weight", {"blocks.{l}.ln2.weight"}});
  return family;
}

}  // namespace vitrine
