// What several families say about single layers: RoPE or none, windows, sinks.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {

void add_sinks(Family& family, std::string_view stored) {
  TensorRule rule{stored, {"blocks.{l}.attn.sinks.weight"}};
  rule.has_ending = false;
  add_tensors(family.tensors, {rule});
}

void add_hunyuan_norms(Family& family) {
  add_tensors(family.tensors, {{"{p}layers.{l}.self_attn.query_layernorm", {"blocks.{l}.attn.q_norm"}},
                               {"{p}layers.{l}.self_attn.key_layernorm", {"blocks.{l}.attn.k_norm"}}});
}

std::vector<bool> read_layers_with_rope(ConfigReader& c, std::size_t n_layers) {
  const std::vector<std::int64_t> listed = c.sizes_or_empty("no_rope_layers");
  const auto interval = static_cast<std::size_t>(c.size_or("no_rope_layer_interval", 4));
  if (!listed.empty() && listed.size() < n_layers) {
    throw BadCheckpoint(c.where(), "no_rope_layers: expected {} layers, got {}", n_layers, listed.size());
  }
  std::vector<bool> with_rope;
  for (std::size_t layer = 0; layer < n_layers; ++layer) {
    with_rope.push_back(listed.empty() ? (layer + 1) % interval != 0 : listed[layer] != 0);
  }
  return with_rope;
}

namespace {

/// Whether each layer has a window, by "LLLG", which is repeated. The published config says that the last layer is full
/// whatever the letters are, which no program does: they must agree.
std::vector<bool> read_letters(ConfigReader& c, std::size_t n_layers) {
  const std::string letters = c.text_or("sliding_window_pattern", "");
  if (letters.empty() || letters.find_first_not_of("LG") != letters.npos) {
    throw BadCheckpoint(c.where(), "sliding_window_pattern: expected letters L and G, got \"{}\"", letters);
  }
  std::vector<bool> sliding;
  for (std::size_t i = 0; i < n_layers; ++i) sliding.push_back(letters[i % letters.size()] == 'L');
  if (sliding.back()) {
    throw Unsupported(c.where(), "sliding_window_pattern: expected G for the last of {} layers, got \"{}\"", n_layers,
                      letters);
  }
  return sliding;
}

}  // namespace

void read_exaone_windows(ConfigReader& c, ModelConfig& model) {
  const auto window = c.contains("sliding_window") ? c.optional_size("sliding_window") : 4096;
  const bool is_listed = c.has("layer_types");
  const std::size_t n_layers = model.blocks.size();
  std::vector<bool> sliding;
  if (is_listed || !window) {
    c.ignore("sliding_window_pattern");  // which layer_types repeats
    sliding = read_sliding_layers(c, n_layers, 1);
  } else if (c.is_text("sliding_window_pattern")) {
    sliding = read_letters(c, n_layers);
  } else {
    sliding = read_sliding_layers(c, n_layers, c.size_or("sliding_window_pattern", 4));
  }
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    AttentionConfig& attention = *find<AttentionConfig>(model.blocks[layer]);
    if (sliding[layer] && !window) {
      throw BadCheckpoint(c.where(), "layer_types: sliding_attention contradicts sliding_window, which is null");
    }
    if (sliding[layer]) {
      attention.window = window;
    } else if (window) {
      attention.rope.reset();
    }
  }
}

void read_granite_windows(ConfigReader& c, ModelConfig& model) {
  const std::size_t n = model.blocks.size();
  const std::vector<bool> listed = read_sliding_layers(c, n);
  const auto window = c.contains("sliding_window") ? c.optional_size("sliding_window") : 128;
  const std::vector<double> thetas = c.has("layer_rope_theta") ? c.numbers("layer_rope_theta") : std::vector<double>();
  if (!thetas.empty() && thetas.size() != n) {
    throw BadCheckpoint(c.where(), "layer_rope_theta: expected one number for each of {} layers, got {}", n,
                        thetas.size());
  }
  for (std::size_t i = 0; i < n; ++i) {
    AttentionConfig& attention = *find<AttentionConfig>(model.blocks[i]);
    attention.sink = true;
    if (listed.empty() ? i % 4 != 0 : listed[i]) attention.window = window;
    if (thetas.empty()) continue;
    if (thetas[i] < 0) throw BadCheckpoint(c.where(), "layer_rope_theta: expected numbers from 0, got {}", thetas[i]);
    const RopeConfig& rope = *attention.rope;
    attention.rope = thetas[i] == 0 ? std::optional<RopeConfig>()
                                    : make_rope(thetas[i], rope.dim, rope.layout, rope.scaling, rope.magnitude);
  }
}

std::optional<QueryScaleConfig> read_query_scale(ConfigReader& c) {
  auto table = c.object("rope_parameters");
  const auto beta = table ? table->optional_number("llama_4_scaling_beta") : std::nullopt;
  if (!beta) throw BadCheckpoint(c.where(), "rope_parameters: expected a table with llama_4_scaling_beta");
  if (*beta == 0) return {};
  return QueryScaleConfig{static_cast<float>(*beta), table->size("original_max_position_embeddings")};
}

namespace {

/// Keys of the published files that transformers does not read. Each must describe what its class computes.
void check_hunyuan_keys(ConfigReader& c, std::int64_t head_dim) {
  const auto expect = [&](bool holds, std::string_view key, std::string_view expected) {
    if (!holds) throw Unsupported(c.where(), "{}: expected {}", key, expected);
  };
  expect(c.size_or("attention_head_dim", head_dim) == head_dim, "attention_head_dim", "the value of head_dim");
  expect(c.text_or("norm_type", "rms") == "rms", "norm_type", "\"rms\"");
  for (const char* key : {"use_qk_norm", "use_rotary_pos_emb"}) expect(c.flag_or(key, true), key, "true");
  c.refuse("use_cla");
  c.ignore("cla_share_factor");                                       // no effect without use_cla
  for (const char* key : {"dense_list", "pool_type"}) c.ignore(key);  // of a classification head
  for (const char* key : {"eod_token_id", "im_end_id", "im_newline_id", "im_start_id", "image_token_id", "mask_init_id",
                          "org_vocab_size", "pad_id", "text_end_id", "text_start_id"}) {
    c.ignore(key);  // special tokens
  }
}

}  // namespace

ModelConfig read_hunyuan_decoder(ConfigReader& c) {
  DecoderKeys keys{};
  keys.norm.eps = 1e-5f;
  keys.rope.has_alpha = true;
  ModelConfig model = read_decoder(c, keys);
  check_hunyuan_keys(c, attention_of(model, 0)->head_dim);
  read_attention_bias(c, model);
  norm_q_and_k(model, QkNormConfig::Over::head);
  for (AttentionConfig* a : every<AttentionConfig>(model.blocks)) a->qk_norm->after_rope = true;
  return model;
}

}  // namespace vitrine
