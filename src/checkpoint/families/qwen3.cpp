// Qwen 3, dense. Sources: Qwen Team 2025; transformers, models/qwen3; the published config.json files.
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_qwen3(ConfigReader& c) {
  ModelConfig model = read_decoder(c, {.max_seq_len = 32768, .head_dim = 128});
  norm_heads(c, model);
  read_window_of_last_layers(c, model);
  return model;
}

}  // namespace

Family qwen3_family() {
  Family family;
  family.model_type = "qwen3";
  family.architectures = {"Qwen3ForCausalLM"};
  family.read_config = read_qwen3;
  use_decoder_names(family);
  add_pre_norms(family);
  add_qk_norms(family);
  return family;
}

}  // namespace vitrine
