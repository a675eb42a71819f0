// Models that no published family describes: config.json with model_type "vitrine" and our own keys, tensors under our
// own names. Every option that is the same in all layers has a key. Layers with a window may alternate with full
// layers.
// The keys of fields come from the lists next to their configs (base/fields.h); the others, which set several fields or
// decide which there are, are in tables/own_keys.h. docs/config.md has them all, by own_config_keys().
#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/families/tables/own_keys.h"
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/own_mixers.h"
#include "checkpoint/read_fields.h"

namespace vitrine {
namespace {

std::size_t choice(ConfigReader& c, const OwnKey& key) { return choice(c, key.name, key.words); }

constexpr std::string_view kMaxLength = "max_seq_len";

enum class Place : std::uint8_t { alone, encoder, decoder };

NormConfig read_norm(ConfigReader& c) {
  NormConfig norm;
  read_fields(c, norm, "norm");
  return norm;
}

AttentionConfig read_attention(ConfigReader& c, const StackConfig& stack, const NormConfig& norm) {
  AttentionConfig attention;
  read_fields(c, attention);
  if (attention.n_kv_heads == 0) attention.n_kv_heads = attention.n_heads;
  attention.head_dim = read_head_dim(c, "head_dim", stack.d_model, attention.n_heads, "d_model", "n_heads");
  if (attention.head_dim > kMaxHeadDim) {
    throw BadCheckpoint(c.where(), "head_dim: expected at most {}, got {}", kMaxHeadDim, attention.head_dim);
  }
  if (!c.has("score_scale")) attention.score_scale = inverse_sqrt(static_cast<double>(attention.head_dim));
  if (c.has("query_scale_interval")) read_fields(c, attention.query_scale.emplace(), "query_scale");
  if (const std::size_t qk = choice(c, own::kQkNorm); qk > 0) {
    attention.qk_norm = {norm, static_cast<QkNormConfig::Over>(qk - 1)};
    read_fields(c, *attention.qk_norm, "qk_norm");
  }
  return attention;
}

/// Latent attention, of which there is no encoder, and no decoder of one.
LatentAttentionConfig read_latent_attention(ConfigReader& c, const NormConfig& norm, Place as) {
  if (as != Place::alone || choice(c, own::kPositions) != 0)
    throw Unsupported(c.where(), "kv_rank: latent attention requires RoPE, and a model without an encoder");
  LatentAttentionConfig attention;
  read_fields(c, attention);
  if (c.has("query_scale_interval")) read_fields(c, attention.query_scale.emplace(), "query_scale");
  if (attention.head_value_dim == 0) attention.head_value_dim = attention.nope_dim;
  const std::int64_t dim = c.size(own::kRopeDim.name, kMaxHeadDim);
  attention.rope = make_rope(c.positive_or(own::kRopeTheta.name, RopeConfig().theta), dim, RopeConfig::Layout::halves,
                             std::monostate{});
  if (!c.has("score_scale")) attention.score_scale = inverse_sqrt(static_cast<double>(attention.query_dim()));
  attention.latent_norm = norm;
  set_row(attention);
  return attention;
}

/// Without attention there are no positions by default, and neither RoPE nor a bias.
void read_positions(ConfigReader& c, StackConfig& stack, AttentionConfig* attention) {
  const std::size_t positions = attention != nullptr || c.has(own::kPositions.name) ? choice(c, own::kPositions) : 2;
  stack.embedding.position_table = positions == 1;
  if (positions == 3) stack.embedding.sinusoid = static_cast<Sinusoid>(choice(c, own::kSinusoid));
  if (attention == nullptr && (positions == 0 || positions >= 4)) {
    throw Unsupported(c.where(), "positions: {} requires attention", own::kPositions.words[positions]);
  }
  if (positions == 4) {
    stack.relative_bias.emplace().bidirectional = attention->bidirectional;
    read_fields(c, *stack.relative_bias, "relative");
  }
  if (positions == 5) {
    AlibiConfig alibi;
    read_fields(c, alibi, "alibi");
    attention->alibi = alibi_for(c, attention->n_heads, alibi.max_bias);
  }
  if (positions != 0) return;  // RoPE's keys then count as unknown
  const double dim = c.number_or(own::kRopeFraction.name, 1) * static_cast<double>(attention->head_dim);
  const bool is_interleaved = c.flag_or(own::kRopeInterleaved.name, false);
  const double theta = c.positive_or(own::kRopeTheta.name, RopeConfig().theta);
  if (!(dim >= 2 && dim <= static_cast<double>(attention->head_dim) && std::fmod(dim, 2) == 0)) {
    throw BadCheckpoint(c.where(), "rope_fraction: expected an even number of a head's {} elements, got {}",
                        attention->head_dim, dim);
  }
  attention->rope =
      make_rope(theta, static_cast<std::int64_t>(dim),
                is_interleaved ? RopeConfig::Layout::interleaved : RopeConfig::Layout::halves, std::monostate{});
  attention->rope->reversed = c.flag_or(own::kRopeReversed.name, false);
}

SublayerKinds::Config read_ffn(ConfigReader& c) {
  DenseConfig dense;
  if (c.has("clamped_swiglu_limit")) read_fields(c, dense.clamped.emplace(), "clamped_swiglu");
  read_fields(c, dense);
  MoeConfig moe;
  if (!c.has("n_experts")) return dense;
  moe.expert = dense;
  if (const auto d_ff = c.optional_size(own::kSharedWidth.name)) {
    moe.shared = dense;
    moe.shared->d_ff = *d_ff;
  }
  read_fields(c, moe);
  read_fields(c, moe.router, "router");
  return moe;
}

/// The full layers among those with a window.
void read_window(ConfigReader& c, std::vector<BlockConfig>& blocks) {
  if (const auto* const first = find<AttentionConfig>(blocks.front()); first == nullptr || !first->window) return;
  const auto full_every = c.optional_size(own::kFullEvery.name);
  for (std::size_t i = 0; full_every && i < blocks.size(); ++i) {
    if ((static_cast<std::int64_t>(i) + 1) % *full_every == 0) find<AttentionConfig>(blocks[i])->window.reset();
  }
}

/// Keys and values of earlier layers, and per-layer embeddings; not in models with an encoder.
void read_gemma_parts(ConfigReader& c, StackConfig& stack, const NormConfig& norm, Place as) {
  if (as != Place::alone) return;  // the keys then count as unknown
  if (c.has(own::kSharedKeys.name) && find<AttentionConfig>(stack.blocks.front()) != nullptr) {
    std::vector<bool> has_window;
    for (const AttentionConfig* attention : every<AttentionConfig>(stack.blocks)) {
      has_window.push_back(attention->window.has_value());
    }
    read_shared_keys(c, stack, has_window, 0, own::kSharedKeys.name);
  }
  const auto width = c.optional_size(own::kPerLayerWidth.name);
  if (!width) return;
  if (find<DenseConfig>(stack.blocks.front()) == nullptr) {
    throw Unsupported(c.where(), "{}: expected an FFN without experts", own::kPerLayerWidth.name);
  }
  put_per_layer_embeddings(stack, *width, c.size_or(own::kPerLayerRows.name, stack.vocab_size), norm);
}

BlockConfig read_transformer_block(ConfigReader& c, StackConfig& stack, const NormConfig& norm, Place as) {
  const std::size_t place = choice(c, own::kNormPlace);
  if (c.flag_or(own::kFinalNorm.name, place != 3)) stack.final_norm = norm;
  BlockConfig block;
  if (c.has("kv_rank")) {
    block.sublayers = {{read_latent_attention(c, norm, as)}, {read_ffn(c)}};
  } else {
    AttentionConfig attention = read_attention(c, stack, norm);
    if (as == Place::encoder) attention.bidirectional = true;
    read_positions(c, stack, &attention);
    block = transformer_block(attention, read_ffn(c), as == Place::decoder);
  }
  if (c.flag_or(own::kParallel.name, false)) block.sublayers.back().input = Sublayer::Input::block;
  for (Sublayer& sublayer : block.sublayers) {
    read_fields(c, sublayer);
    if (place == 0 || place == 2) sublayer.norms.pre = norm;
    if (place == 1 || place == 2) sublayer.norms.post = norm;
    if (place == 3) sublayer.norms.sum = norm;
  }
  return block;
}

/// A block of a mixer with a state, and an FFN if its width is given.
BlockConfig read_mixer_block(ConfigReader& c, StackConfig& stack, const NormConfig& norm) {
  BlockConfig block{{{ConvConfig(), {norm}}}};
  if (c.has("d_ff")) block.sublayers.push_back({read_ffn(c), {norm}});
  for (Sublayer& sublayer : block.sublayers) read_fields(c, sublayer);
  if (c.flag_or(own::kFinalNorm.name, true)) stack.final_norm = norm;
  read_positions(c, stack, nullptr);
  return block;
}

/// Blocks of attention and of mixers with a state, as the words say.
void read_mixers(ConfigReader& c, StackConfig& stack, const std::vector<std::string>& words, const NormConfig& norm,
                 std::size_t n_layers, Place as) {
  if (as != Place::alone) throw Unsupported(c.where(), "layers: mixers with a state, and an encoder");
  const std::vector<std::string> all = repeated_words(c, words, n_layers);
  const bool attends = std::find(all.begin(), all.end(), "attention") != all.end();
  stack.blocks.assign(n_layers,
                      attends ? read_transformer_block(c, stack, norm, as) : read_mixer_block(c, stack, norm));
  if (attends) read_window(c, stack.blocks);
  for (std::size_t i = 0; i < n_layers; ++i) {
    if (all[i] != "attention") stack.blocks[i].sublayers.front().what = read_own_mixer(c, all[i], stack, norm);
  }
}

/// Whether nothing in a stack knows how far a token is from another: neither attention nor positions.
bool has_no_distances(const StackConfig& stack) {
  if (stack.embedding.position_table || stack.embedding.sinusoid) return false;
  for (std::size_t i = 0; i < stack.blocks.size(); ++i) {
    if (heads_of(stack, i) != nullptr) return false;
  }
  return true;
}

/// A recurrent layer, or a dense one.
LayerConfig read_layer(ConfigReader& c, StackConfig& stack, std::size_t kind, Place as) {
  if (kind == 4) {
    PerceptronConfig layer{stack.d_model};
    read_fields(c, layer);
    stack.embedding.context = c.size_or(own::kContext.name, 1);
    if (stack.embedding.context > 1) {
      stack.embedding.context_pad = read_id(c, own::kContextPad.name, 0, stack.vocab_size).value_or(0);
    }
    return layer;
  }
  RecurrentConfig cell;
  cell.d_hidden = stack.d_model;
  cell.kind = kind == 3 ? CellKind::lstm : kind == 2 ? CellKind::gru : CellKind::rnn_tanh;
  if (kind == 1 && choice(c, own::kRnnActivation) == 1) cell.kind = CellKind::rnn_relu;
  if (as == Place::decoder && c.has(own::kAdditive.name)) {
    choice(c, own::kAdditive);
    cell.d_attention = c.size_or("d_hidden", stack.d_model);
  }
  read_fields(c, cell);
  return cell;
}

StackConfig read_stack(ConfigReader& c, Place as) {
  StackConfig stack;
  read_fields(c, stack);
  const NormConfig norm = read_norm(c);
  const std::vector<std::string> words = c.texts_or_one(own::kLayers.name);
  const bool has_mixers = words.size() > 1 || (words.size() == 1 && is_own_mixer(words.front()));
  const std::size_t kind = has_mixers ? 0 : choice(c, own::kLayers);
  const std::int64_t n_layers = c.size(own::kLayerCount.name, kMaxLayers);
  if (has_mixers) {
    read_mixers(c, stack, words, norm, static_cast<std::size_t>(n_layers), as);
  } else if (kind == 0) {
    stack.blocks.assign(static_cast<std::size_t>(n_layers), read_transformer_block(c, stack, norm, as));
    read_window(c, stack.blocks);
    read_gemma_parts(c, stack, norm, as);
  } else {
    read_positions(c, stack, nullptr);
    if (c.flag_or(own::kFinalNorm.name, false)) stack.final_norm = norm;
    stack.layers.assign(static_cast<std::size_t>(n_layers), read_layer(c, stack, kind, as));
    for (std::size_t i = 1; i < stack.layers.size(); ++i) {
      if (auto* const cell = std::get_if<RecurrentConfig>(&stack.layers[i])) cell->d_attention.reset();  // the first's
    }
  }
  const bool has_no_limit = as == Place::alone && has_no_distances(stack) && !c.has(kMaxLength);
  stack.max_seq_len = has_no_limit ? kNoContextLimit : c.size(kMaxLength);
  read_fields(c, stack.embedding);
  if (c.flag_or(own::kEmbeddingNorm.name, false)) stack.embedding.norm = norm;
  return stack;
}

/// Where a recurrent decoder's first states come from.
void read_bridge(ConfigReader& c, ModelConfig& model) {
  if (recurrent_layer(model, 0) == nullptr) return;
  const bool can_copy = recurrent_layer(*model.encoder, 0) != nullptr;
  if (!can_copy && !c.has(own::kBridge.name)) return;
  const auto bridge = static_cast<RecurrentConfig::Bridge>(choice(c, own::kBridge));
  for (LayerConfig& layer : model.layers) std::get<RecurrentConfig>(layer).bridge = bridge;
}

ModelConfig read_own(ConfigReader& c) {
  const bool has_encoder = c.has(own::kEncoder.name);
  ModelConfig model;
  static_cast<StackConfig&>(model) = read_stack(c, has_encoder ? Place::decoder : Place::alone);
  if (has_encoder) {
    ConfigReader encoder = c.inheriting(
        own::kEncoder.name, {own::kSharedEmbedding.name, own::kAdditive.name, "d_attention", own::kBridge.name});
    model.encoder = read_stack(encoder, Place::encoder);
    encoder.finish();
    c.use_keys_of(encoder);
    read_bridge(c, model);
    model.shared_embedding = c.flag_or(own::kSharedEmbedding.name, true);
  }
  read_fields(c, model.head);
  if (c.flag_or(own::kHeadTransform.name, false)) {
    model.head.transform = {Activation::silu, read_norm(c)};
    read_fields(c, *model.head.transform);
  }
  return model;
}

}  // namespace

Family vitrine_family() {
  Family family;
  family.model_type = "vitrine";
  family.architecture = "VitrineForCausalLM";
  family.read_config = read_own;
  family.prefixes = {""};
  family.embedding = "embed.weight";
  family.experts = {"", ""};
  for (const std::string_view name : own_tensor_names()) family.tensors.push_back({name, {name}});
  for (const std::string_view name : own_cell_names()) {
    TensorRule rule{name, {name}};
    rule.has_ending = false;
    family.tensors.push_back(rule);
  }
  return family;
}

}  // namespace vitrine
