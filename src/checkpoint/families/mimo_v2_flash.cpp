// MiMo V2 Flash: values narrower than keys; windows with sinks, twice the K/V heads and a RoPE of their own; dense
// layers, then experts with DeepSeek V3's router. Sources: Xiaomi 2025; transformers, models/mimo_v2_flash; the
// published config.json files.
#include <algorithm>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

/// The layers that have a 1 in a list of the published files.
std::vector<bool> read_ones(ConfigReader& c, std::string_view key, std::size_t n_layers) {
  const std::vector<std::int64_t> list = c.sizes_or_empty(key);
  const bool is_valid = std::all_of(list.begin(), list.end(), [](std::int64_t i) { return i <= 1; });
  if (!list.empty() && (list.size() != n_layers || !is_valid)) {
    throw BadCheckpoint(c.where(), "{}: expected 0 or 1 for each of {} layers", key, n_layers);
  }
  return {list.begin(), list.end()};
}

/// Keys of the published files that transformers does not read. Each must describe what its class computes.
void check_published_keys(ConfigReader& c, const AttentionConfig& full, std::int64_t value_dim) {
  const auto expect = [&](const char* key, std::int64_t size) {
    c.expect(c.size_or(key, size) == size, key, "the size of the full layers");
  };
  expect("swa_head_dim", full.head_dim);
  expect("swa_num_attention_heads", full.n_heads);
  expect("swa_v_head_dim", value_dim);
  c.expect(c.flag_or("add_swa_attention_sink_bias", true), "add_swa_attention_sink_bias", "true");
  c.refuse("add_full_attention_sink_bias");
  c.ignore("attention_chunk_size");
}

ModelConfig read_mimo(ConfigReader& c) {
  DecoderKeys keys{.max_seq_len = 131072, .head_dim = 192};
  if (!c.has("rms_norm_eps")) keys.eps_key = "layernorm_epsilon";
  keys.norm.eps = 1e-5f;
  keys.rope.theta = 5e6;
  keys.rope.fraction_key = "partial_rotary_factor";
  keys.rope.fraction = 0.334;
  keys.rope.layer_type = "full_attention";
  ModelConfig model = read_decoder(c, keys);
  set_qkv_bias(model, c.flag_or("attention_bias", false));
  RopeKeys local = keys.rope;
  local.theta = 10000;
  local.theta_key = "swa_rope_theta";
  local.layer_type = "sliding_attention";
  const RopeConfig rope = read_rope(c, attention_of(model, 0)->head_dim, model.max_seq_len, local);
  std::vector<bool> listed = read_sliding_layers(c, model.blocks.size());
  if (listed.empty()) listed = read_ones(c, "hybrid_layer_pattern", model.blocks.size());
  const std::int64_t before = c.size_or("sliding_window_size", 128), value_dim = c.size_or("v_head_dim", 128);
  const std::int64_t other = c.size_or("sliding_window", 129),
                     window = c.has("sliding_window_size") ? before + 1 : other;
  const std::int64_t n_kv_heads = c.size_or("swa_num_key_value_heads", 2 * attention_of(model, 0)->n_kv_heads);
  check_published_keys(c, *attention_of(model, 0), value_dim);
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
    attention.n_kv_heads = n_kv_heads;
  }
  const MoeConfig moe = read_grouped_experts(c, model, {.n_experts = 256, .top_k = 8, .d_ff = 2048});
  const std::vector<bool> sparse = read_ones(c, "moe_layer_freq", model.blocks.size());
  const auto has_type = read_sparse_layers(c, model.blocks.size(), 1);
  put_experts(model, moe, [&](std::int64_t layer) {
    return sparse.empty() ? has_type(layer) : sparse[static_cast<std::size_t>(layer)];
  });
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
