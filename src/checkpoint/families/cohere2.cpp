// Cohere 2 (Command R7B, Command A): Command R's block; three layers with a window and RoPE, then one without either.
// Sources: Cohere Team 2025; transformers, models/cohere2; the published config.json files.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

/// Keys of the published files that transformers does not read. Each must describe what its class computes.
void check_unread_keys(ConfigReader& c, bool tied) {
  c.expect(c.number_or("rotary_pct", 1) == 1, "rotary_pct", "1");
  c.expect(c.text_or("position_embedding_type", "rope_gptj") == "rope_gptj", "position_embedding_type", "rope_gptj");
  c.expect(c.text_or("order_of_interleaved_layers", "local_attn_first") == "local_attn_first",
           "order_of_interleaved_layers", "local_attn_first");
  for (const char* key : {"use_gated_activation", "use_parallel_block"}) c.expect(c.flag_or(key, true), key, "true");
  c.expect(c.flag_or("use_embedding_sharing", tied) == tied, "use_embedding_sharing",
           "the value of tie_word_embeddings");
  c.refuse("use_qk_norm");
  c.ignore("layer_switch");            // sliding_window_pattern again
  c.ignore("use_parallel_embedding");  // how a distributed run splits the table
  c.ignore("cache_implementation");
}

ModelConfig read_cohere2(ConfigReader& c) {
  ModelConfig model = read_cohere_decoder(c, 10000);
  check_unread_keys(c, model.head.tied);
  const std::vector<bool> sliding = read_sliding_layers(c, model.blocks.size(), c.size_or("sliding_window_pattern", 4));
  const std::int64_t window = c.size_or("sliding_window", 4096);
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    AttentionConfig& attention = *find<AttentionConfig>(model.blocks[layer]);
    if (sliding[layer]) {
      attention.window = window;
    } else {
      attention.rope.reset();
    }
  }
  return model;
}

}  // namespace

Family cohere2_family() { return decoder_family("cohere2", "Cohere2ForCausalLM", read_cohere2); }

}  // namespace vitrine
