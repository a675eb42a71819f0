// Models that no published family describes: config.json with model_type "vitrine" and our own keys, tensors under our
// own names. Every option that is the same in all layers has a key. Layers with a window may alternate with full
// layers.
// The keys of fields come from the lists next to their configs (base/fields.h); the others, which set several fields or
// decide which there are, are below. docs/config.md has them all, by own_config_keys().
#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"
#include "checkpoint/own_config.h"
#include "checkpoint/own_mixers.h"
#include "checkpoint/read_fields.h"

namespace vitrine {
namespace {

/// What the list of a config says of a field.
template <HasFields C>
std::string_view sentence_of(const C& config, std::string_view name) {
  std::string_view sentence;
  for_each_field(config, [&](const Field& field, const auto&) {
    if (field.name == name) sentence = field.sentence;
  });
  return sentence;
}

// Keys that set several fields, or decide which there are

const EmbeddingConfig kOfContext = [] {
  EmbeddingConfig embedding;
  embedding.context = 2;
  return embedding;
}();
const ModelConfig kPair = [] {
  ModelConfig model;
  model.encoder.emplace();
  return model;
}();
const RecurrentConfig kAttending = [] {
  RecurrentConfig cell;
  cell.d_attention = 1;
  return cell;
}();

const OwnKey kLayerCount{"n_layers", "", "number of layers"};
const OwnKey kLayers{"layers",
                     "",
                     "what a layer is: a Transformer's block, a recurrent layer, or a dense one; or a list, which is "
                     "repeated, of attention and mixers with a state: delta, kda, mamba, mamba2, conv",
                     {"attention", "rnn", "gru", "lstm", "dense"}};
const OwnKey kExpand{"expand", "2", "channels of Mamba and Mamba-2 in units of `d_model`"};
const OwnKey kEmbeddingNorm{"embedding_norm", "false", sentence_of(EmbeddingConfig(), "embedding_norm")};
const OwnKey kPositions{"positions",
                        "`\"rope\"`; `\"none\"` without attention",
                        "what tells a layer the order of tokens; RoPE, relative biases and ALiBi need attention",
                        {"rope", "learned", "none", "sinusoidal", "relative", "alibi"}};
const OwnKey kSinusoid{"sinusoid",
                       "",
                       "order of a sinusoid's elements: sine and cosine in turn (Vaswani et al. 2017); all sines, then "
                       "all cosines (Marian); halves with the exponent i / (d/2 − 1)",
                       {"interleaved", "halves", "tensor2tensor"}};
const OwnKey kFinalNorm{"final_norm", "true; false with `after_residual`, and without attention",
                        sentence_of(StackConfig(), "final_norm")};
const OwnKey kQkNorm{"qk_norm",
                     "",
                     "a norm of q and k, over each head, each with a weight of its own, or all",
                     {"none", "head", "head_own_weight", "all_heads"}};
const OwnKey kFullEvery{"full_every", "none", "every `full_every`-th layer has no window"};
const OwnKey kRopeTheta{"rope_theta", "10000", "base of the frequencies"};
const OwnKey kRopeFraction{"rope_fraction", "1", "the part of a head that is rotated"};
const OwnKey kRopeInterleaved{"rope_interleaved", "false", "pairs are neighbours, instead of halves of the head"};
const OwnKey kRopeReversed{"rope_reversed", "false", sentence_of(RopeConfig(), "reversed")};
const OwnKey kRopeDim{"rope_dim", "required with `kv_rank`",
                      "the rotated elements of a head's query, and of the one key"};
const OwnKey kNormPlace{"norm_place",
                        "",
                        "of the norms of a sublayer: of its input, its output, both, or of the sum",
                        {"before", "after", "both", "after_residual"}};
const OwnKey kParallel{"parallel", "false", "attention and FFN read the same stream, and both are added to it"};
const OwnKey kSharedWidth{"d_ff_shared", "none", "inner elements of an expert that every token uses"};
const OwnKey kRnnActivation{"activation", "", "of an RNN", {"tanh", "relu"}};
const OwnKey kContext{"context", "1", sentence_of(kOfContext, "context")};
const OwnKey kContextPad{"pad_token_id", "0", sentence_of(kOfContext, "pad_token_id")};
const OwnKey kHeadTransform{"head_transform", "false", sentence_of(HeadConfig(), "head_transform")};
const OwnKey kEncoder{"encoder", "none",
                      "an object of the keys that differ in the encoder; `{}`: all are those of the decoder"};
const OwnKey kSharedEmbedding{"shared_embedding", "true", sentence_of(kPair, "shared_embedding")};
const OwnKey kAdditive{
    "attention", "none", "a recurrent decoder's first layer reads [x ; context] (Bahdanau et al. 2014)", {"additive"}};
const OwnKey kBridge{"bridge",
                     "`\"copy\"` if the encoder is recurrent",
                     "the state before a recurrent decoder's first token: that of the encoder's layer after its last "
                     "token (equal sizes, one direction), or tanh(W [→h ; ←h] + b)",
                     {"copy", "linear"}};

std::size_t choice(ConfigReader& c, const OwnKey& key) { return choice(c, key.name, key.words); }

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
  attention.head_dim = read_head_dim(c, "head_dim", stack.d_model, attention.n_heads);
  if (attention.head_dim > kMaxHeadDim) {
    throw BadCheckpoint(c.where(), "head_dim: expected at most {}, got {}", kMaxHeadDim, attention.head_dim);
  }
  if (!c.has("score_scale")) attention.score_scale = inverse_sqrt(static_cast<double>(attention.head_dim));
  if (c.has("query_scale_interval")) read_fields(c, attention.query_scale.emplace(), "query_scale");
  if (const std::size_t qk = choice(c, kQkNorm); qk > 0) {
    attention.qk_norm = {norm, static_cast<QkNormConfig::Over>(qk - 1)};
    read_fields(c, *attention.qk_norm, "qk_norm");
  }
  return attention;
}

/// Latent attention, of which there is no encoder, and no decoder of one.
LatentAttentionConfig read_latent_attention(ConfigReader& c, const NormConfig& norm, Place as) {
  if (as != Place::alone || choice(c, kPositions) != 0)
    throw Unsupported(c.where(), "kv_rank: latent attention requires RoPE, and a model without an encoder");
  LatentAttentionConfig attention;
  read_fields(c, attention);
  if (c.has("query_scale_interval")) read_fields(c, attention.query_scale.emplace(), "query_scale");
  if (attention.head_value_dim == 0) attention.head_value_dim = attention.nope_dim;
  const std::int64_t dim = c.size(kRopeDim.name, kMaxHeadDim);
  attention.rope =
      make_rope(c.positive_or(kRopeTheta.name, RopeConfig().theta), dim, RopeConfig::Layout::halves, std::monostate{});
  if (!c.has("score_scale")) attention.score_scale = inverse_sqrt(static_cast<double>(attention.query_dim()));
  attention.latent_norm = norm;
  set_row(attention);
  return attention;
}

/// Without attention there are no positions by default, and neither RoPE nor a bias.
void read_positions(ConfigReader& c, StackConfig& stack, AttentionConfig* attention) {
  const std::size_t positions = attention != nullptr || c.has(kPositions.name) ? choice(c, kPositions) : 2;
  stack.embedding.position_table = positions == 1;
  if (positions == 3) stack.embedding.sinusoid = static_cast<Sinusoid>(choice(c, kSinusoid));
  if (attention == nullptr && (positions == 0 || positions >= 4)) {
    throw Unsupported(c.where(), "positions: {} requires attention", kPositions.words[positions]);
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
  const double dim = c.number_or(kRopeFraction.name, 1) * static_cast<double>(attention->head_dim);
  const bool is_interleaved = c.flag_or(kRopeInterleaved.name, false);
  const double theta = c.positive_or(kRopeTheta.name, RopeConfig().theta);
  if (!(dim >= 2 && dim <= static_cast<double>(attention->head_dim) && std::fmod(dim, 2) == 0)) {
    throw BadCheckpoint(c.where(), "rope_fraction: expected an even number of a head's {} elements, got {}",
                        attention->head_dim, dim);
  }
  attention->rope =
      make_rope(theta, static_cast<std::int64_t>(dim),
                is_interleaved ? RopeConfig::Layout::interleaved : RopeConfig::Layout::halves, std::monostate{});
  attention->rope->reversed = c.flag_or(kRopeReversed.name, false);
}

SublayerKinds::Config read_ffn(ConfigReader& c) {
  DenseConfig dense;
  if (c.has("clamped_swiglu_limit")) read_fields(c, dense.clamped.emplace(), "clamped_swiglu");
  read_fields(c, dense);
  MoeConfig moe;
  if (!c.has("n_experts")) return dense;
  moe.expert = dense;
  if (const auto d_ff = c.optional_size(kSharedWidth.name)) {
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
  const auto full_every = c.optional_size(kFullEvery.name);
  for (std::size_t i = 0; full_every && i < blocks.size(); ++i) {
    if ((static_cast<std::int64_t>(i) + 1) % *full_every == 0) find<AttentionConfig>(blocks[i])->window.reset();
  }
}

BlockConfig read_transformer_block(ConfigReader& c, StackConfig& stack, const NormConfig& norm, Place as) {
  const std::size_t place = choice(c, kNormPlace);
  if (c.flag_or(kFinalNorm.name, place != 3)) stack.final_norm = norm;
  BlockConfig block;
  if (c.has("kv_rank")) {
    block.sublayers = {{read_latent_attention(c, norm, as)}, {read_ffn(c)}};
  } else {
    AttentionConfig attention = read_attention(c, stack, norm);
    if (as == Place::encoder) attention.bidirectional = true;
    read_positions(c, stack, &attention);
    block = transformer_block(attention, read_ffn(c), as == Place::decoder);
  }
  if (c.flag_or(kParallel.name, false)) block.sublayers.back().input = Sublayer::Input::block;
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
  if (c.flag_or(kFinalNorm.name, true)) stack.final_norm = norm;
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

/// A recurrent layer, or a dense one.
LayerConfig read_layer(ConfigReader& c, StackConfig& stack, std::size_t kind, Place as) {
  if (kind == 4) {
    PerceptronConfig layer{stack.d_model};
    read_fields(c, layer);
    stack.embedding.context = c.size_or(kContext.name, 1);
    if (stack.embedding.context > 1) {
      stack.embedding.context_pad = read_id(c, kContextPad.name, 0, stack.vocab_size).value_or(0);
    }
    return layer;
  }
  RecurrentConfig cell;
  cell.d_hidden = stack.d_model;
  cell.kind = kind == 3 ? CellKind::lstm : kind == 2 ? CellKind::gru : CellKind::rnn_tanh;
  if (kind == 1 && choice(c, kRnnActivation) == 1) cell.kind = CellKind::rnn_relu;
  if (as == Place::decoder && c.has(kAdditive.name)) {
    choice(c, kAdditive);
    cell.d_attention = c.size_or("d_hidden", stack.d_model);
  }
  read_fields(c, cell);
  return cell;
}

StackConfig read_stack(ConfigReader& c, Place as) {
  StackConfig stack;
  read_fields(c, stack);
  const NormConfig norm = read_norm(c);
  const std::vector<std::string> words = c.texts_or_one(kLayers.name);
  const bool has_mixers = words.size() > 1 || (words.size() == 1 && is_own_mixer(words.front()));
  const std::size_t kind = has_mixers ? 0 : choice(c, kLayers);
  const std::int64_t n_layers = c.size(kLayerCount.name, kMaxLayers);
  if (has_mixers) {
    read_mixers(c, stack, words, norm, static_cast<std::size_t>(n_layers), as);
  } else if (kind == 0) {
    stack.blocks.assign(static_cast<std::size_t>(n_layers), read_transformer_block(c, stack, norm, as));
    read_window(c, stack.blocks);
  } else {
    read_positions(c, stack, nullptr);
    if (c.flag_or(kFinalNorm.name, false)) stack.final_norm = norm;
    stack.layers.assign(static_cast<std::size_t>(n_layers), read_layer(c, stack, kind, as));
    for (std::size_t i = 1; i < stack.layers.size(); ++i) {
      if (auto* const cell = std::get_if<RecurrentConfig>(&stack.layers[i])) cell->d_attention.reset();  // the first's
    }
  }
  read_fields(c, stack.embedding);
  if (c.flag_or(kEmbeddingNorm.name, false)) stack.embedding.norm = norm;
  return stack;
}

/// Where a recurrent decoder's first states come from.
void read_bridge(ConfigReader& c, ModelConfig& model) {
  if (recurrent_layer(model, 0) == nullptr) return;
  const bool can_copy = recurrent_layer(*model.encoder, 0) != nullptr;
  if (!can_copy && !c.has(kBridge.name)) return;
  const auto bridge = static_cast<RecurrentConfig::Bridge>(choice(c, kBridge));
  for (LayerConfig& layer : model.layers) std::get<RecurrentConfig>(layer).bridge = bridge;
}

ModelConfig read_own(ConfigReader& c) {
  const bool has_encoder = c.has(kEncoder.name);
  ModelConfig model;
  static_cast<StackConfig&>(model) = read_stack(c, has_encoder ? Place::decoder : Place::alone);
  if (has_encoder) {
    ConfigReader encoder =
        c.inheriting(kEncoder.name, {kSharedEmbedding.name, kAdditive.name, "d_attention", kBridge.name});
    model.encoder = read_stack(encoder, Place::encoder);
    encoder.finish();
    c.use_keys_of(encoder);
    read_bridge(c, model);
    model.shared_embedding = c.flag_or(kSharedEmbedding.name, true);
  }
  read_fields(c, model.head);
  if (c.flag_or(kHeadTransform.name, false)) {
    model.head.transform = {Activation::silu, read_norm(c)};
    read_fields(c, *model.head.transform);
  }
  return model;
}

/// The rows of docs/config.md.
class KeyRows {
 public:
  void add(const OwnKey& key) {
    OwnKeyRow row{std::string(key.name), std::string(key.otherwise), std::string(key.sentence)};
    if (row.otherwise.empty() && !key.words.empty()) row.otherwise = quoted(key.words.front());
    finish(row, key.words);
  }
  /// The keys of the fields of `config`, whose values are the defaults, but not those of configs within it.
  template <HasFields C>
  void add(const C& config, std::string_view of = "") {
    for_each_field(config, [&](const Field& field, const auto& member) {
      if constexpr (kIsReadable<std::remove_cvref_t<decltype(member)>>) {
        if (field.is_key) add_field(key_of(of, field), field, member);
      }
    });
  }
  std::vector<OwnKeyRow> take() { return std::exchange(rows_, {}); }

 private:
  template <class T>
  void add_field(const std::string& key, const Field& field, const T& member) {
    OwnKeyRow row{key, std::string(field.otherwise), std::string(field.sentence)};
    if (field.otherwise == Field::kRequired) row.otherwise.clear();
    if constexpr (std::is_enum_v<T>) {
      row.otherwise = quoted(text_of(member));
      return finish(row, words(member));
    } else if constexpr (std::is_same_v<T, bool>) {
      row.otherwise = member ? "true" : "false";
    } else if (field.otherwise.empty()) {
      row.otherwise = text_of(member);
    }
    finish(row, {});
  }
  static std::string quoted(std::string_view word) { return fmt::format("`\"{}\"`", word); }
  void finish(OwnKeyRow& row, std::span<const std::string_view> words) {
    const auto is_same = [&](const OwnKeyRow& other) {
      return other.name == row.name && other.sentence == row.sentence;
    };
    if (std::any_of(rows_.begin(), rows_.end(), is_same)) return;
    for (const std::string_view word : words) row.sentence += (word == words.front() ? ": " : ", ") + quoted(word);
    rows_.push_back(std::move(row));
  }

  std::vector<OwnKeyRow> rows_;
};

}  // namespace

std::vector<OwnKeySection> own_config_keys() {
  std::vector<OwnKeySection> sections;
  KeyRows rows;
  EmbeddingConfig embedding;
  embedding.sinusoid = Sinusoid::interleaved;
  rows.add(StackConfig());
  for (const OwnKey* key : {&kLayerCount, &kLayers, &kPositions, &kSinusoid}) rows.add(*key);
  rows.add(embedding);
  rows.add(kEmbeddingNorm);
  rows.add(NormConfig(), "norm");
  rows.add(kFinalNorm);
  sections.push_back({"Every stack", rows.take()});
  AttentionConfig attention;
  attention.window = 1;
  rows.add(attention);
  for (const OwnKey* key : {&kFullEvery, &kQkNorm}) rows.add(*key);
  rows.add(QkNormConfig(), "qk_norm");
  rows.add(QueryScaleConfig(), "query_scale");
  for (const OwnKey* key : {&kRopeTheta, &kRopeFraction, &kRopeInterleaved, &kRopeReversed, &kRopeDim}) rows.add(*key);
  rows.add(LatentAttentionConfig());
  rows.add(RelativeBiasConfig(), "relative");
  rows.add(AlibiConfig(), "alibi");
  for (const OwnKey* key : {&kNormPlace, &kParallel}) rows.add(*key);
  rows.add(Sublayer{DenseConfig()});
  rows.add(DenseConfig());
  rows.add(ClampedSwiglu(), "clamped_swiglu");
  MoeConfig moe;
  moe.shared.emplace();
  moe.router.groups = 2;
  rows.add(moe);
  rows.add(kSharedWidth);
  rows.add(moe.router, "router");
  sections.push_back({"Blocks of attention", rows.take()});
  rows.add(DeltaNetConfig());
  rows.add(kExpand);
  rows.add(MambaConfig());
  rows.add(Mamba2Config());
  rows.add(ConvConfig());
  sections.push_back({"Mixers with a state", rows.take()});
  rows.add(RecurrentConfig());
  rows.add(kRnnActivation);
  rows.add(PerceptronConfig());
  for (const OwnKey* key : {&kContext, &kContextPad}) rows.add(*key);
  sections.push_back({"Recurrent and dense layers", rows.take()});
  rows.add(HeadConfig());
  rows.add(kHeadTransform);
  sections.push_back({"The head", rows.take()});
  for (const OwnKey* key : {&kEncoder, &kSharedEmbedding, &kAdditive}) rows.add(*key);
  rows.add(OwnKey{"d_attention", "`d_hidden`", sentence_of(kAttending, "d_attention")});
  rows.add(kBridge);
  sections.push_back({"Encoder–decoders", rows.take()});
  return sections;
}

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
