// Llama 4, its text models: chunks and RoPE in three of four layers, then a full layer without positions whose queries
// are scaled; one expert reads each token, times its score. Sources: Meta 2025; transformers, models/llama4.
#include <algorithm>

#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

/// Layers with RoPE attend within their chunk, the others to all earlier tokens.
void read_layers(ConfigReader& c, ModelConfig& model) {
  const auto chunk = c.contains("attention_chunk_size") ? c.optional_size("attention_chunk_size") : 8192;
  const bool has_norm = c.flag_or("use_qk_norm", true), has_scale = c.truth_or("attn_temperature_tuning", true);
  const QueryScaleConfig scale{static_cast<float>(c.number_or("attn_scale", 0.1)), c.size_or("floor_scale", 8192), 1};
  const std::vector<bool> with_rope = read_layers_with_rope(c, model.blocks.size());
  const std::vector<bool> chunked = read_sliding_layers(c, model.blocks.size(), std::nullopt, "chunked_attention");
  const NormConfig norm{NormConfig::Kind::rms, model.final_norm->eps, 0, false, false};
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    AttentionConfig& a = *find<AttentionConfig>(model.blocks[i]);
    a.chunked = chunk && (chunked.empty() ? with_rope[i] : chunked[i]);
    if (a.chunked) a.window = chunk;
    if (with_rope[i] && has_norm) a.qk_norm = QkNormConfig{norm, QkNormConfig::Over::head, true};
    if (with_rope[i]) continue;
    a.rope.reset();
    if (has_scale) a.query_scale = scale;
  }
}

ModelConfig read_llama4(ConfigReader& c) {
  DecoderKeys keys{.max_seq_len = 131072, .d_ff_key = "intermediate_size_mlp", .head_dim = 128};
  keys.norm.eps = 1e-5f;
  keys.rope.theta = 500000;
  keys.rope.layout = RopeConfig::Layout::interleaved;
  ModelConfig model = read_decoder(c, keys);
  read_attention_bias(c, model);
  read_layers(c, model);
  MoeConfig moe = read_experts(c, model, {.n_experts_key = "num_local_experts", .n_experts = 16, .top_k = 1});
  moe.shared = moe.expert;
  moe.shared_gate = moe.renormalize = false;
  moe.weighs_input = true;
  moe.router.score = RouterConfig::Score::sigmoid;
  const std::int64_t step = c.size_or("interleave_moe_layer_step", 1);
  const std::vector<std::int64_t> listed = c.sizes_or_empty("moe_layers");
  put_experts(model, moe, [&](std::int64_t i) {
    return c.has("moe_layers") ? std::count(listed.begin(), listed.end(), i) > 0 : (i + 1) % step == 0;
  });
  return model;
}

}  // namespace

Family llama4_family() {
  Family family = decoder_family("llama4_text", "Llama4ForCausalLM", read_llama4);
  add_feed_forward(family);
  family.experts = {"{p}layers.{l}.feed_forward.experts.gate_up_proj", "{p}layers.{l}.feed_forward.experts.down_proj"};
  family.experts.is_transposed = true;
  add_transposed_experts(family, family.experts.gate_up, family.experts.down, Rows::stacked);
  return family;
}

}  // namespace vitrine
