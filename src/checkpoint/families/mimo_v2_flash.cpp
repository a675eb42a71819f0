// MiMo V2 Flash: values narrower than keys; windows with sinks, twice the K/V heads and a RoPE of their own; dense
// layers, then experts with DeepSeek V3's router. Sources: Xiaomi 2025; transformers, models/mimo_v2_flash.
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_mimo(ConfigReader& c) {
  DecoderKeys keys{.max_seq_len = 131072, .head_dim = 192};
  keys.norm.eps = 1e-5f;
  keys.rope.theta = 5e6;
  keys.rope.fraction_key = "partial_rotary_factor";
  keys.rope.fraction = 0.334;
  keys.rope.layer_type = "full_attention";
  ModelConfig model = read_decoder(c, keys);
  set_qkv_bias(model, c.flag_or("attention_bias", false));
  RopeKeys local = keys.rope;
  local.theta = 10000;
  local.layer_type = "sliding_attention";
  const RopeConfig rope = read_rope(c, attention_of(model, 0)->head_dim, model.max_seq_len, local);
  const std::vector<bool> listed = read_sliding_layers(c, model.blocks.size());
  const std::int64_t window = c.size_or("sliding_window", 129), value_dim = c.size_or("v_head_dim", 128);
  const bool is_unscaled = c.contains("attention_value_scale") && !c.has("attention_value_scale");
  const auto value_scale = static_cast<float>(c.positive_or("attention_value_scale", is_unscaled ? 1 : 0.707));
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    AttentionConfig& attention = *find<AttentionConfig>(model.blocks[i]);
    attention.value_dim = value_dim;
    attention.value_scale = value_scale;
    const bool slides = listed.empty() ? i != 0 && (i + 1) % 6 != 0 : listed[i];
    if (!slides) continue;
    attention.sink = true;
    attention.window = window;
    attention.rope = rope;
    attention.n_kv_heads *= 2;
  }
  const MoeConfig moe = read_grouped_experts(c, model, {.n_experts = 256, .top_k = 8, .d_ff = 2048});
  put_experts(model, moe, read_sparse_layers(c, model.blocks.size(), 1));
  return model;
}

}  // namespace

Family mimo_v2_flash_family() {
  Family family = decoder_family("mimo_v2_flash", "MiMoV2FlashForCausalLM", read_mimo);
  add_experts(family, "n_routed_experts");
  add_correction(family);
  add_sinks(family, "{p}layers.{l}.self_attn.attention_sink_bias");
  return family;
}

}  // namespace vitrine
