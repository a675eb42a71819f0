// SmolLM 3: every fourth layer without RoPE. Sources: Bakouch et al. 2025; Yang et al. 2025 (layers without positions);
// transformers, models/smollm3; the published config.json files.
#include <algorithm>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/hugging_face/task_parts.h"

namespace vitrine {
namespace {

ModelConfig read_smollm3(ConfigReader& c) {
  c.refuse("use_sliding_window");
  for (const char* key : {"sliding_window", "max_window_layers"}) c.ignore(key);  // no effect without it
  DecoderKeys keys{.max_seq_len = 32768, .tied = true};
  keys.rope.theta = 2e6;
  ModelConfig model = read_decoder(c, keys);
  const std::vector<bool> sliding = read_sliding_layers(c, model.blocks.size());
  if (std::find(sliding.begin(), sliding.end(), true) != sliding.end()) {
    throw BadCheckpoint(c.where(), "layer_types: sliding_attention contradicts use_sliding_window, which is false");
  }
  read_biases(c, model);
  const std::vector<bool> with_rope = read_layers_with_rope(c, model.blocks.size());
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    if (!with_rope[layer]) find<AttentionConfig>(model.blocks[layer])->rope.reset();
  }
  return model;
}

}  // namespace

Family smollm3_family() {
  Family family = decoder_family("smollm3", "SmolLM3ForCausalLM", read_smollm3);
  family.tasks = decoder_classes(128004);
  return family;
}

}  // namespace vitrine
