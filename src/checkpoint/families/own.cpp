// Models that no published family describes: config.json with model_type "vitrine" and our own keys, tensors under our
// own names. Every option that is the same in all layers has a key. Layers with a window may alternate with full
// layers.
//
//   sizes      d_model, n_layers, n_heads, vocab_size, max_seq_len, d_ff; optional: n_kv_heads, head_dim
//   positions  positions "rope" | "learned" | "none"; rope_theta, rope_fraction, rope_interleaved
//   norms      norm "rms" | "layer", norm_eps, norm_bias, norm_weight_offset; norm_place "before" | "after" | "both" |
//              "after_residual"; final_norm (true, but false with after_residual); qk_norm "none" | "head" |
//              "head_own_weight" | "all_heads"
//   block      parallel, residual_scale, qkv_bias, out_bias, ffn_bias
//   attention  bidirectional, score_scale, score_softcap, window, full_every (every full_every-th layer has no window)
//   FFN        activation, gated; with experts: n_experts, top_k, renormalize, d_ff_shared; d_ff is then an expert's
//   embedding  embedding_scale, first_position (the row of the position table for the first token), n_types,
//              embedding_norm
//   head       head_transform, tied, head_bias, logit_scale, logit_softcap
#include <cmath>

#include "base/error.h"
#include "checkpoint/family_parts.h"

namespace vitrine {
namespace {

/// The index in `names` of the text at `key`; 0 if the key is absent.
std::size_t choice(ConfigReader& c, std::string_view key, std::initializer_list<std::string_view> names) {
  const std::string text = c.text_or(key, *names.begin());
  std::string expected;
  std::size_t i = 0;
  for (const std::string_view name : names) {
    if (name == text) return i;
    expected += (i++ == 0 ? "" : ", ") + std::string(name);
  }
  throw Unsupported(c.where(), "{}: expected {}, got \"{}\"", key, expected, text);
}

/// A whole number; 0 if the key is absent.
std::int64_t read_count(ConfigReader& c, std::string_view key) {
  const double n = c.number_or(key, 0);
  if (n == 0) return 0;
  return c.size(key);
}

NormConfig read_norm(ConfigReader& c) {
  NormConfig norm;
  norm.kind = choice(c, "norm", {"rms", "layer"}) == 0 ? NormConfig::Kind::rms : NormConfig::Kind::layer;
  norm.eps = static_cast<float>(c.number_or("norm_eps", 1e-5));
  norm.weight_offset = static_cast<float>(c.number_or("norm_weight_offset", 0));
  norm.bias = c.flag_or("norm_bias", false);
  return norm;
}

AttentionConfig read_attention(ConfigReader& c, const ModelConfig& model, const NormConfig& norm) {
  AttentionConfig attention;
  attention.n_heads = c.size("n_heads");
  attention.n_kv_heads = c.size_or("n_kv_heads", attention.n_heads);
  attention.head_dim = read_head_dim(c, "head_dim", model.d_model, attention.n_heads);
  if (attention.head_dim > kMaxHeadDim) {
    throw BadCheckpoint(c.where(), "head_dim: expected at most {}, got {}", kMaxHeadDim, attention.head_dim);
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
  attention.score_scale = static_cast<float>(c.number_or("score_scale", scale));
  attention.softcap = read_softcap(c, "score_softcap", std::nullopt);
  attention.bidirectional = c.flag_or("bidirectional", false);
  attention.qkv_bias = c.flag_or("qkv_bias", false);
  attention.out_bias = c.flag_or("out_bias", false);
  const std::size_t qk = choice(c, "qk_norm", {"none", "head", "head_own_weight", "all_heads"});
  if (qk > 0) attention.qk_norm = {norm, static_cast<QkNormConfig::Over>(qk - 1)};
  return attention;
}

void read_positions(ConfigReader& c, ModelConfig& model, AttentionConfig& attention) {
  const std::size_t positions = choice(c, "positions", {"rope", "learned", "none"});
  model.embedding.learned_positions = positions == 1;
  if (positions == 1) model.embedding.first_position = read_count(c, "first_position");
  if (positions != 0) return;  // RoPE's keys then count as unknown
  const double dim = c.number_or("rope_fraction", 1) * static_cast<double>(attention.head_dim);
  const bool is_interleaved = c.flag_or("rope_interleaved", false);
  const double theta = c.positive_or("rope_theta", 10000);
  if (!(dim >= 2 && dim <= static_cast<double>(attention.head_dim) && std::fmod(dim, 2) == 0)) {
    throw BadCheckpoint(c.where(), "rope_fraction: expected an even number of a head's {} elements, got {}",
                        attention.head_dim, dim);
  }
  attention.rope =
      make_rope(theta, static_cast<std::int64_t>(dim),
                is_interleaved ? RopeConfig::Layout::interleaved : RopeConfig::Layout::halves, std::monostate{});
}

std::variant<DenseConfig, MoeConfig> read_ffn(ConfigReader& c) {
  const DenseConfig dense{c.size("d_ff"), activation_named(c, c.text_or("activation", "silu")),
                          c.flag_or("gated", true), c.flag_or("ffn_bias", false)};
  if (!c.has("n_experts")) return dense;
  MoeConfig moe;
  moe.n_experts = c.size("n_experts");
  moe.top_k = c.size("top_k");
  moe.renormalize = c.flag_or("renormalize", true);
  moe.expert = dense;
  if (const auto d_ff = c.optional_size("d_ff_shared")) {
    moe.shared = dense;
    moe.shared->d_ff = *d_ff;
  }
  return moe;
}

ModelConfig read_own(ConfigReader& c) {
  ModelConfig model;
  model.d_model = c.size("d_model");
  model.vocab_size = c.size("vocab_size");
  model.max_seq_len = c.size("max_seq_len");
  model.embedding.scale = static_cast<float>(c.number_or("embedding_scale", 1));
  model.head.tied = c.flag_or("tied", false);
  model.head.bias = c.flag_or("head_bias", false);
  model.head.scale = static_cast<float>(c.number_or("logit_scale", 1));
  model.head.softcap = read_softcap(c, "logit_softcap", std::nullopt);
  const NormConfig norm = read_norm(c);
  const std::size_t place = choice(c, "norm_place", {"before", "after", "both", "after_residual"});
  if (c.flag_or("final_norm", place != 3)) model.final_norm = norm;
  if (c.flag_or("embedding_norm", false)) model.embedding.norm = norm;
  model.embedding.n_types = read_count(c, "n_types");

  BlockConfig block;
  block.attention() = read_attention(c, model, norm);
  read_positions(c, model, block.attention());
  block.ffn = read_ffn(c);
  if (c.flag_or("head_transform", false)) {
    model.head.transform = {activation_named(c, c.text_or("activation", "silu")), norm};
  }
  block.residual = c.flag_or("parallel", false) ? BlockConfig::Residual::parallel : BlockConfig::Residual::serial;
  block.residual_scale = static_cast<float>(c.number_or("residual_scale", 1));
  if (place == 0 || place == 2) block.norms.attn_pre = block.norms.ffn_pre = norm;
  if (place == 1 || place == 2) block.norms.attn_post = block.norms.ffn_post = norm;
  if (place == 3) block.norms.attn_sum = block.norms.ffn_sum = norm;
  model.blocks.assign(static_cast<std::size_t>(c.size("n_layers", kMaxLayers)), block);
  if (!c.has("window")) return model;
  const std::int64_t window = c.size("window");
  const std::optional<std::int64_t> full_every = c.optional_size("full_every");
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    const bool is_full = full_every && (static_cast<std::int64_t>(i) + 1) % *full_every == 0;
    if (!is_full) model.blocks[i].attention().window = window;
  }
  return model;
}

}  // namespace

Family own_family() {
  Family family;
  family.model_type = "vitrine";
  family.architecture = "VitrineForCausalLM";
  family.read_config = read_own;
  family.prefixes = {""};
  family.embedding = "embed.weight";
  for (const std::string_view name : {"embed",
                                      "pos_embed",
                                      "type_embed",
                                      "ln_embed",
                                      "blocks.{l}.ln1",
                                      "blocks.{l}.attn.wq",
                                      "blocks.{l}.attn.wk",
                                      "blocks.{l}.attn.wv",
                                      "blocks.{l}.attn.q_norm",
                                      "blocks.{l}.attn.k_norm",
                                      "blocks.{l}.attn.wo",
                                      "blocks.{l}.ln1_post",
                                      "blocks.{l}.ln2",
                                      "blocks.{l}.mlp.w_gate",
                                      "blocks.{l}.mlp.w_up",
                                      "blocks.{l}.mlp.w_down",
                                      "blocks.{l}.mlp.router",
                                      "blocks.{l}.mlp.experts.{e}.w_gate",
                                      "blocks.{l}.mlp.experts.{e}.w_up",
                                      "blocks.{l}.mlp.experts.{e}.w_down",
                                      "blocks.{l}.mlp.shared.w_gate",
                                      "blocks.{l}.mlp.shared.w_up",
                                      "blocks.{l}.mlp.shared.w_down",
                                      "blocks.{l}.mlp.shared_gate",
                                      "blocks.{l}.ln2_post",
                                      "ln_final",
                                      "head.dense",
                                      "head.ln",
                                      "unembed"}) {
    family.tensors.push_back({name, {name}});
  }
  return family;
}

}  // namespace vitrine
