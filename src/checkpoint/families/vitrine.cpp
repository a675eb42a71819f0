// Models that no published family describes: config.json with model_type "vitrine" and our own keys, tensors under our
// own names. Every option that is the same in all layers has a key. Layers with a window may alternate with full
// layers.
//
//   sizes      d_model, n_layers, n_heads, vocab_size, max_seq_len, d_ff; optional: n_kv_heads, head_dim
//   positions  positions "rope" | "learned" | "sinusoidal" | "relative" | "none"; rope_theta, rope_fraction,
//              rope_interleaved; sinusoid "interleaved" | "halves" | "tensor2tensor"; first_position (of the first
//              token, in the table or the sinusoids); relative_buckets, relative_max_distance
//   norms      norm "rms" | "layer", norm_eps, norm_bias, norm_weight_offset, norm_weight (true); norm_place "before" |
//   "after" | "both" |
//              "after_residual"; final_norm (true, but false with after_residual); qk_norm "none" | "head" |
//              "head_own_weight" | "all_heads"; qk_norm_after_rope
//   block      parallel, residual_scale, qkv_bias, out_bias, ffn_bias
//   attention  bidirectional, score_scale, score_softcap, qkv_clip, window, full_every (every full_every-th layer has
//   no window) FFN        activation, gated; with experts: n_experts, top_k, renormalize, d_ff_shared; d_ff is then an
//   expert's embedding  embedding_scale, n_types, embedding_norm head       head_transform, tied, head_bias,
//   logit_scale, logit_softcap encoder    an object of the keys that differ in the encoder, which attends in both
//   directions and inherits all
//              others; the decoder then has cross-attention; shared_embedding (true)
//   layers     "attention" | "rnn" | "gru" | "lstm" | "dense"; all but the first replace the stream by their output of
//              d_hidden (d_model) elements, have neither positions nor a final_norm by default, and no keys of norms in
//              blocks, block, attention and FFN:
//              recurrent: bidirectional, activation "tanh" | "relu" (rnn); with an encoder: attention "additive" with
//              d_attention (d_hidden), bridge "copy" | "linear" (copy, if the encoder is recurrent)
//              dense: activation, context (1), the number of tokens that each row reads; pad_token_id (0), those before
//              the text
#include <cmath>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

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
  norm.weight = c.flag_or("norm_weight", true);
  return norm;
}

AttentionConfig read_attention(ConfigReader& c, const StackConfig& stack, const NormConfig& norm) {
  AttentionConfig attention;
  attention.n_heads = c.size("n_heads");
  attention.n_kv_heads = c.size_or("n_kv_heads", attention.n_heads);
  attention.head_dim = read_head_dim(c, "head_dim", stack.d_model, attention.n_heads);
  if (attention.head_dim > kMaxHeadDim) {
    throw BadCheckpoint(c.where(), "head_dim: expected at most {}, got {}", kMaxHeadDim, attention.head_dim);
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
  attention.score_scale = static_cast<float>(c.number_or("score_scale", scale));
  attention.softcap = read_softcap(c, "score_softcap", std::nullopt);
  attention.qkv_clip = read_softcap(c, "qkv_clip", std::nullopt);
  attention.bidirectional = c.flag_or("bidirectional", false);
  attention.qkv_bias = c.flag_or("qkv_bias", false);
  attention.out_bias = c.flag_or("out_bias", false);
  const std::size_t qk = choice(c, "qk_norm", {"none", "head", "head_own_weight", "all_heads"});
  if (qk > 0) {
    attention.qk_norm = {norm, static_cast<QkNormConfig::Over>(qk - 1), c.flag_or("qk_norm_after_rope", false)};
  }
  return attention;
}

/// Without attention there are no positions by default, and neither RoPE nor a relative bias.
void read_positions(ConfigReader& c, StackConfig& stack, AttentionConfig* attention) {
  const std::size_t positions = attention != nullptr || c.has("positions")
                                    ? choice(c, "positions", {"rope", "learned", "none", "sinusoidal", "relative"})
                                    : 2;
  if (positions == 1 || positions == 3) stack.embedding.first_position = read_count(c, "first_position");
  stack.embedding.position_table = positions == 1;
  if (positions == 3) {
    stack.embedding.sinusoid = static_cast<Sinusoid>(choice(c, "sinusoid", {"interleaved", "halves", "tensor2tensor"}));
  }
  if (attention == nullptr && (positions == 0 || positions == 4)) {
    throw Unsupported(c.where(), "positions: {} requires attention", positions == 0 ? "rope" : "relative");
  }
  if (positions == 4) {
    stack.relative_bias = {c.size_or("relative_buckets", 32), c.size_or("relative_max_distance", 128),
                           attention->bidirectional};
  }
  if (positions != 0) return;  // RoPE's keys then count as unknown
  const double dim = c.number_or("rope_fraction", 1) * static_cast<double>(attention->head_dim);
  const bool is_interleaved = c.flag_or("rope_interleaved", false);
  const double theta = c.positive_or("rope_theta", 10000);
  if (!(dim >= 2 && dim <= static_cast<double>(attention->head_dim) && std::fmod(dim, 2) == 0)) {
    throw BadCheckpoint(c.where(), "rope_fraction: expected an even number of a head's {} elements, got {}",
                        attention->head_dim, dim);
  }
  attention->rope =
      make_rope(theta, static_cast<std::int64_t>(dim),
                is_interleaved ? RopeConfig::Layout::interleaved : RopeConfig::Layout::halves, std::monostate{});
}

SublayerKinds::Config read_ffn(ConfigReader& c) {
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

/// The full layers among those with a window.
void read_window(ConfigReader& c, std::vector<BlockConfig>& blocks) {
  if (!c.has("window")) return;
  const std::int64_t window = c.size("window");
  const std::optional<std::int64_t> full_every = c.optional_size("full_every");
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const bool is_full = full_every && (static_cast<std::int64_t>(i) + 1) % *full_every == 0;
    if (!is_full) find<AttentionConfig>(blocks[i])->window = window;
  }
}

enum class Place : std::uint8_t { alone, encoder, decoder };

BlockConfig read_transformer_block(ConfigReader& c, StackConfig& stack, const NormConfig& norm, Place as) {
  const std::size_t place = choice(c, "norm_place", {"before", "after", "both", "after_residual"});
  if (c.flag_or("final_norm", place != 3)) stack.final_norm = norm;
  AttentionConfig attention = read_attention(c, stack, norm);
  if (as == Place::encoder) attention.bidirectional = true;
  read_positions(c, stack, &attention);
  BlockConfig block = transformer_block(attention, read_ffn(c), as == Place::decoder);
  if (c.flag_or("parallel", false)) block.sublayers.back().input = Sublayer::Input::block;
  const auto scale = static_cast<float>(c.number_or("residual_scale", 1));
  for (Sublayer& sublayer : block.sublayers) {
    sublayer.scale = scale;
    if (place == 0 || place == 2) sublayer.norms.pre = norm;
    if (place == 1 || place == 2) sublayer.norms.post = norm;
    if (place == 3) sublayer.norms.sum = norm;
  }
  return block;
}

/// A recurrent layer, or a dense one.
LayerConfig read_layer(ConfigReader& c, StackConfig& stack, std::size_t kind, Place as) {
  const std::int64_t d_hidden = c.size_or("d_hidden", stack.d_model);
  if (kind == 4) {
    const PerceptronConfig layer{d_hidden, activation_named(c, c.text_or("activation", "silu"))};
    stack.embedding.context = c.size_or("context", 1);
    if (stack.embedding.context > 1) {
      stack.embedding.context_pad = read_id(c, "pad_token_id", 0, stack.vocab_size).value_or(0);
    }
    return layer;
  }
  RecurrentConfig cell;
  cell.d_hidden = d_hidden;
  cell.kind = kind == 3 ? CellKind::lstm : kind == 2 ? CellKind::gru : CellKind::rnn_tanh;
  if (kind == 1 && choice(c, "activation", {"tanh", "relu"}) == 1) cell.kind = CellKind::rnn_relu;
  cell.bidirectional = c.flag_or("bidirectional", false);
  if (as == Place::decoder && c.has("attention")) {
    choice(c, "attention", {"additive"});
    cell.d_attention = c.size_or("d_attention", d_hidden);
  }
  return cell;
}

StackConfig read_stack(ConfigReader& c, Place as) {
  StackConfig stack;
  stack.d_model = c.size("d_model");
  stack.vocab_size = c.size("vocab_size");
  stack.max_seq_len = c.size("max_seq_len");
  stack.embedding.scale = static_cast<float>(c.number_or("embedding_scale", 1));
  stack.embedding.n_types = read_count(c, "n_types");
  const NormConfig norm = read_norm(c);
  if (c.flag_or("embedding_norm", false)) stack.embedding.norm = norm;
  const std::size_t kind = choice(c, "layers", {"attention", "rnn", "gru", "lstm", "dense"});
  const std::int64_t n_layers = c.size("n_layers", kMaxLayers);
  if (kind == 0) {
    stack.blocks.assign(static_cast<std::size_t>(n_layers), read_transformer_block(c, stack, norm, as));
    read_window(c, stack.blocks);
    return stack;
  }
  read_positions(c, stack, nullptr);
  if (c.flag_or("final_norm", false)) stack.final_norm = norm;
  stack.layers.assign(static_cast<std::size_t>(n_layers), read_layer(c, stack, kind, as));
  for (std::size_t i = 1; i < stack.layers.size(); ++i) {
    if (auto* const cell = std::get_if<RecurrentConfig>(&stack.layers[i])) cell->d_attention.reset();  // the first's
  }
  return stack;
}

/// Where a recurrent decoder's first states come from.
void read_bridge(ConfigReader& c, ModelConfig& model) {
  if (recurrent_layer(model, 0) == nullptr) return;
  const bool can_copy = recurrent_layer(*model.encoder, 0) != nullptr;
  if (!can_copy && !c.has("bridge")) return;
  const auto bridge = static_cast<RecurrentConfig::Bridge>(choice(c, "bridge", {"copy", "linear"}));
  for (LayerConfig& layer : model.layers) std::get<RecurrentConfig>(layer).bridge = bridge;
}

ModelConfig read_own(ConfigReader& c) {
  const bool has_encoder = c.has("encoder");
  ModelConfig model;
  static_cast<StackConfig&>(model) = read_stack(c, has_encoder ? Place::decoder : Place::alone);
  if (has_encoder) {
    ConfigReader encoder = c.inheriting("encoder", {"shared_embedding", "attention", "d_attention", "bridge"});
    model.encoder = read_stack(encoder, Place::encoder);
    encoder.finish();
    c.use_keys_of(encoder);
    read_bridge(c, model);
    model.shared_embedding = c.flag_or("shared_embedding", true);
  }
  model.head.tied = c.flag_or("tied", false);
  model.head.bias = c.flag_or("head_bias", false);
  model.head.scale = static_cast<float>(c.number_or("logit_scale", 1));
  model.head.softcap = read_softcap(c, "logit_softcap", std::nullopt);
  if (c.flag_or("head_transform", false)) {
    model.head.transform = {activation_named(c, c.text_or("activation", "silu")), read_norm(c)};
  }
  return model;
}

/// The names of all tensors, for one stack and for two.
std::span<const std::string> tensor_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"head.dense", "head.ln", "unembed"};
    for (const std::string stack : {"", "encoder.", "decoder."}) {
      for (const char* own : {"embed", "pos_embed", "type_embed", "ln_embed", "rel_bias", "ln_final"}) {
        all.push_back(stack + own);
      }
      const std::string block = (stack.empty() ? "blocks." : stack) + "{l}.";
      for (const char* norm : {"ln1", "ln1_post", "ln2", "ln2_post", "ln3", "ln3_post"}) all.push_back(block + norm);
      for (const std::string attention : {"attn.", "cross_attn."}) {
        for (const char* own : {"wq", "wk", "wv", "q_norm", "k_norm", "wo"}) all.push_back(block + attention + own);
      }
      for (const std::string ffn : {"mlp.", "mlp.experts.{e}.", "mlp.shared."}) {
        for (const char* own : {"w_gate", "w_up", "w_down"}) all.push_back(block + ffn + own);
      }
      for (const char* own : {"dense.{l}", "attn.query", "attn.key", "attn.v", "bridge.{l}", "bridge_c.{l}"}) {
        all.push_back(stack + own);
      }
      all.push_back(block + "mlp.router");
      all.push_back(block + "mlp.shared_gate");
    }
    return all;
  }();
  return names;
}

/// The names of recurrent cells, which are those of torch.nn and have no ending.
std::span<const std::string> cell_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const std::string stack : {"", "encoder.", "decoder."}) {
      for (const char* own : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
        for (const char* direction : {"", "_reverse"}) all.push_back(stack + "rnn." + own + "_l{l}" + direction);
      }
    }
    return all;
  }();
  return names;
}

}  // namespace

Family vitrine_family() {
  Family family;
  family.model_type = "vitrine";
  family.architecture = "VitrineForCausalLM";
  family.read_config = read_own;
  family.prefixes = {""};
  family.embedding = "embed.weight";
  for (const std::string_view name : tensor_names()) family.tensors.push_back({name, {name}});
  for (const std::string_view name : cell_names()) {
    TensorRule rule{name, {name}};
    rule.has_ending = false;
    family.tensors.push_back(rule);
  }
  return family;
}

}  // namespace vitrine
