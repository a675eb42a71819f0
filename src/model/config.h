// The architecture of a model as data: sizes and options, resolved for every layer. Model families are not named here.
//
// Derived numbers (head_dim, score_scale, RoPE frequencies) are computed when the config is read. Absent values are
// std::optional, never 0 or −1.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "cache/kv_cache.h"
#include "model/altup/altup.h"
#include "model/layers/perceptron.h"
#include "model/layers/recurrent.h"
#include "model/sublayers.h"
#include "model/task_head.h"
#include "ops/embed.h"
#include "ops/position_scores.h"
#include "ops/relative_bias.h"

namespace vitrine {

struct EmbeddingConfig {
  float scale = 1.0f;  ///< Factor of the token embeddings.
  /// Elements of a token's embedding, which a linear map takes to d_model; absent: d_model, and no map.
  std::optional<std::int64_t> width{};
  /// The map is of the sum of all embeddings after its norm, which have `width` elements, too; and it has a bias.
  bool projects_sum = false;
  bool position_table = false;  ///< Adds rows of a table of positions, which is learned unless they are sinusoids.
  /// Adds the sinusoid of each position, which is computed, or, with a position_table, is a row of the file's table.
  std::optional<Sinusoid> sinusoid;
  std::int64_t first_position = 0;  ///< That of the first token, in the table or the sinusoids.
  /// Tokens of this id have position first_position − 1, and the tokens after them are counted as if they were absent.
  std::optional<std::int32_t> uncounted_id;
  std::int64_t n_types = 0;        ///< Adds the embedding of each token's type (segment), 0 … n_types − 1; 0: none.
  std::optional<NormConfig> norm;  ///< Of the sum.
  std::optional<std::int32_t> untrained_id;  ///< Training does not change the embedding of this token where it is read.
  /// Each row has the embeddings of its token and of the context − 1 tokens before it, oldest first (Bengio et al.
  /// 2003). Those before the text begins are `context_pad`.
  std::int64_t context = 1;
  std::int32_t context_pad = 0;

  bool operator==(const EmbeddingConfig&) const = default;
};

template <ConfigOf<EmbeddingConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"embedding_scale", "factor of the token embeddings"}, c.scale);
  visit(Field{"embedding_width", "elements of a token's embedding, which a linear map takes to `d_model`"}, c.width);
  if (c.width) visit(Field{"projects_sum", "the map is of the sum of all embeddings", {}, false}, c.projects_sum);
  visit(Field{"position_table", "adds rows of a table of positions", {}, false}, c.position_table);
  visit(Field{"sinusoid", "adds sinusoids of the positions, in this order of their elements", {}, false}, c.sinusoid);
  if (c.position_table || c.sinusoid) {
    visit(Field{"first_position", "of the first token, in the table or the sinusoids"}, c.first_position);
  }
  visit(Field{"uncounted_id", "tokens of this id have no position", {}, false}, c.uncounted_id);
  visit(Field{"n_types", "number of token types (segments), whose embeddings are added"}, c.n_types);
  visit(Field{"embedding_norm", "a norm of the sum of the embeddings"}, c.norm);
  visit(Field{"untrained_id", "training does not change the embedding of this token", {}, false}, c.untrained_id);
  visit(Field{"context",
              "dense: the number of tokens that a row reads, its own and those before it, oldest first",
              {},
              false},
        c.context);
  if (c.context > 1) visit(Field{"pad_token_id", "dense: the token before the text begins", {}, false}, c.context_pad);
}

/// The inputs of per-layer embeddings: every layer has its own part, of `width` elements, of
/// sum_scale · (norm(x · projection · projection_scale) + scale · table[id]), where x is the stream before the first
/// layer. Only the rows of the table that a pass looks up are read.
struct PerLayerInputConfig {
  std::int64_t vocab_size = 0;  ///< Rows of the table.
  float scale = 1.0f;
  float projection_scale = 1.0f;
  float sum_scale = 1.0f;
  NormConfig norm;  ///< Of each layer's part of the projection.

  bool operator==(const PerLayerInputConfig&) const = default;
};

template <ConfigOf<PerLayerInputConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"per_layer_vocab_size", "rows of the table of per-layer embeddings", {}, false}, c.vocab_size);
  visit(Field{"per_layer_scale", "factor of its rows", {}, false}, c.scale);
  visit(Field{"per_layer_projection_scale", "factor of the projection of the first stream", {}, false},
        c.projection_scale);
  visit(Field{"per_layer_sum_scale", "factor of the sum of the two", {}, false}, c.sum_scale);
  visit(Field{"per_layer_norm", "of each layer's part of the projection", {}, false}, c.norm);
}

/// The norms before and after a sublayer, inside the residual branch, and that of the sum of stream and branch. Absent
/// norms are the identity.
struct SublayerNorms {
  std::optional<NormConfig> pre{}, post{}, sum{};

  bool operator==(const SublayerNorms&) const = default;
};

template <ConfigOf<SublayerNorms> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"norm_before", "of what a sublayer reads"}, c.pre);
  visit(Field{"norm_after", "of its output"}, c.post);
  visit(Field{"norm_of_sum_after", "of the sum of the stream and its output"}, c.sum);
}

/// A part of a block: a branch that reads the stream, and is added to it.
///
///   x ──┬── pre ── what ── post ── · scale ──(+)── sum ──▶
///       └─────────────────────────────────────┘
struct Sublayer {
  enum class Input : std::uint8_t {
    stream,     ///< The stream with the outputs of the sublayers before this one.
    block,      ///< The stream before the block: with `stream` of the first sublayer, a parallel block.
    previous,   ///< What the sublayer before it reads, after its norm, which is the norm of both. `pre` is absent.
    corrected,  ///< With AltUp: the active stream after the correction. The output is added to all streams but the
                ///< first.
  };

  SublayerKinds::Config what;
  SublayerNorms norms{};
  Input input = Input::stream;
  float input_scale = 1.0f;  ///< Factor of what it reads, after the norm.
  float scale = 1.0f;        ///< Factor of the output before it is added to the stream.
  float sum_scale = 1.0f;    ///< Factor of the stream after the output is added to it.

  bool operator==(const Sublayer&) const = default;
};

constexpr std::array<std::string_view, 4> words(Sublayer::Input) {
  return {"stream", "block", "previous", "corrected"};
}
template <ConfigOf<Sublayer> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"", "what it computes"}, c.what);
  visit(Field{"", "its norms"}, c.norms);
  visit(Field{"input", "what it reads", {}, false}, c.input);
  visit(Field{"input_scale", "factor of what a sublayer reads, after the norm", {}, false}, c.input_scale);
  visit(Field{"residual_scale", "factor of a sublayer's output before it is added to the stream"}, c.scale);
  visit(Field{"residual_sum_scale", "factor of the stream after it", {}, false}, c.sum_scale);
}

/// A layer with a residual stream. In GPT-2 attention and an FFN, in the decoder of T5 cross-attention between them.
struct BlockConfig {
  std::vector<Sublayer> sublayers;
  std::optional<std::int64_t> same_as{};  ///< The earlier block of the stack whose parameters it uses; absent: its own.
  bool scalar = false;  ///< The stream after the block is multiplied by a number, a constant of the checkpoint.

  /// Whether no sublayer reads what another has added to the stream.
  bool is_parallel() const;

  bool operator==(const BlockConfig&) const = default;
};

template <ConfigOf<BlockConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  for (auto& sublayer : c.sublayers) visit(Field{"", "in the order of a forward"}, sublayer);
  visit(Field{"same_as", "the earlier block whose parameters it uses", {}, false}, c.same_as);
  visit(Field{"layer_scalar", "the stream after the block is multiplied by a number of the checkpoint", {}, false},
        c.scalar);
}

/// The first sublayer of a kind in a block; null: none.
template <class Kind>
const Kind* find(const BlockConfig& block) {
  for (const Sublayer& sublayer : block.sublayers) {
    if (const Kind* const kind = std::get_if<Kind>(&sublayer.what)) return kind;
  }
  return nullptr;
}
template <class Kind>
Kind* find(BlockConfig& block) {
  return const_cast<Kind*>(find<Kind>(std::as_const(block)));
}

/// All sublayers of a kind, in the order of a forward.
template <class Kind>
std::vector<Kind*> every(std::vector<BlockConfig>& blocks) {
  std::vector<Kind*> all;
  for (BlockConfig& block : blocks) {
    for (Sublayer& sublayer : block.sublayers) {
      if (Kind* const kind = std::get_if<Kind>(&sublayer.what)) all.push_back(kind);
    }
  }
  return all;
}

/// A layer that replaces the stream by its output.
using LayerKinds = KindList<RecurrentConfig, PerceptronConfig>;
using LayerConfig = LayerKinds::Config;

/// A layer between the final norm and the unembedding: norm(act(x · dense + bias)) (Devlin et al. 2018).
struct HeadTransform {
  Activation activation = Activation::gelu_erf;
  NormConfig norm;
  bool bias = true;                     ///< Of the dense layer.
  std::optional<std::int64_t> width{};  ///< Elements after the dense layer; absent: as many as before it.

  bool operator==(const HeadTransform&) const = default;
};

template <ConfigOf<HeadTransform> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"activation", "after the dense layer"}, c.activation);
  visit(Field{"norm", "after the activation"}, c.norm);
  visit(Field{"bias", "of the dense layer", {}, false}, c.bias);
  visit(Field{"width", "elements after the dense layer", {}, false}, c.width);
}

struct HeadConfig {
  std::optional<HeadTransform> transform;
  /// Elements of what the unembedding multiplies, by a linear map; absent: those of the stack's output, and no map.
  std::optional<std::int64_t> width{};
  bool tied = false;  ///< The head uses the weight of the token embedding.
  bool bias = false;
  bool is_bias_trained = true;  ///< False for a bias that is a constant of the checkpoint.
  float scale = 1.0f;           ///< Factor of the logits, before the softcap.
  std::optional<float> softcap;

  bool operator==(const HeadConfig&) const = default;
};

template <ConfigOf<HeadConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"head_transform", "a dense layer, activation and norm before it"}, c.transform);
  visit(Field{"head_width", "elements of what the head multiplies, after a linear map"}, c.width);
  visit(Field{"tied", "the head multiplies by the embedding"}, c.tied);
  visit(Field{"head_bias", "a bias of the logits"}, c.bias);
  visit(Field{"is_bias_trained", "false for a constant of the checkpoint", {}, false}, c.is_bias_trained);
  visit(Field{"logit_scale", "factor of the logits"}, c.scale);
  visit(Field{"logit_softcap", "logits become softcap · tanh(logits / softcap)"}, c.softcap);
}

/// A vector for a whole text, from its first row: tanh(x[0] · dense + bias) (Devlin et al. 2018).
struct PoolerConfig {
  /// From it, two logits: whether the second part of the text follows the first (0), or is any other (1).
  bool next_sentence = false;

  bool operator==(const PoolerConfig&) const = default;
};

template <ConfigOf<PoolerConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"next_sentence", "two logits from the pooled vector"}, c.next_sentence);
}

/// A stack of layers, from token ids to vectors. It has either blocks, which add to a residual stream, or layers that
/// replace the stream.
struct StackConfig {
  std::int64_t d_model = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_seq_len = 0;
  EmbeddingConfig embedding;
  std::optional<RelativeBiasConfig> relative_bias;      ///< Of the scores of attention within the stack, in all layers.
  std::optional<DistanceTableConfig> distance_table{};  ///< Of the position terms of attention, in all layers.
  std::optional<PerLayerInputConfig> per_layer{};       ///< What sublayers of the kind PerLayerConfig read.
  std::optional<AltUpConfig> altup{};                   ///< The stream is several streams.
  std::vector<BlockConfig> blocks;
  std::vector<LayerConfig> layers;
  std::optional<NormConfig> final_norm;

  std::size_t n_layers() const { return blocks.size() + layers.size(); }
  /// Elements of a row of the table of tokens.
  std::int64_t embedding_width() const { return embedding.width.value_or(d_model); }
  /// Elements of a row of the tables of positions and types, and of the embedding's norm.
  std::int64_t sum_width() const { return embedding.projects_sum ? embedding_width() : d_model; }
  /// Elements of a row of the stream before layer `i`; for i = n_layers() after the last layer.
  std::int64_t width_before(std::size_t i) const;
  /// Elements of a row of what the head reads.
  std::int64_t output_width() const { return altup ? d_model : width_before(n_layers()); }

  bool operator==(const StackConfig&) const = default;
};

template <ConfigOf<StackConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"d_model", "elements of an embedding, and of the residual stream", Field::kRequired}, c.d_model);
  visit(Field{"vocab_size", "number of tokens", Field::kRequired}, c.vocab_size);
  visit(Field{"max_seq_len", "the longest sequence, in tokens", "required; without attention and positions: no limit"},
        c.max_seq_len);
  visit(Field{"", "from ids to vectors"}, c.embedding);
  visit(Field{"relative_bias", "of the scores of attention, in all layers"}, c.relative_bias);
  visit(Field{"distance_table", "of scores by relative position", {}, false}, c.distance_table);
  visit(Field{"per_layer", "the inputs of per-layer embeddings", {}, false}, c.per_layer);
  visit(Field{"altup", "several residual streams (AltUp)", {}, false}, c.altup);
  visit(Field{"blocks", "layers with a residual stream"}, c.blocks);
  visit(Field{"layers", "layers that replace the stream"}, c.layers);
  visit(Field{"final_norm", "a norm before the head"}, c.final_norm);
}

/// A model is a stack with a head. In an encoder–decoder the stack is the decoder, and its cross-attention reads the
/// output of another stack, the encoder.
struct ModelConfig : StackConfig {
  std::optional<StackConfig> encoder;
  bool shared_embedding = false;  ///< The encoder uses the decoder's token embedding.
  std::optional<PoolerConfig> pooler;
  std::optional<TaskHead> task{};  ///< Instead of a head that predicts tokens.
  bool has_head = true;            ///< Without one the model computes vectors, but no logits.
  HeadConfig head;

  /// Elements of a row that the unembedding multiplies.
  std::int64_t head_width() const { return head.width.value_or(transformed_width()); }
  /// Elements of a row after the head's transform.
  std::int64_t transformed_width() const {
    return head.transform ? head.transform->width.value_or(output_width()) : output_width();
  }
  /// The name of the model's own stack in sites and parameters.
  Stack stack() const { return encoder ? Stack::decoder : Stack::only; }

  bool operator==(const ModelConfig&) const = default;
};

template <ConfigOf<ModelConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  for_each_field(base_of<StackConfig>(c), visit);
  visit(Field{"encoder", "the stack whose output cross-attention reads"}, c.encoder);
  if (c.encoder) visit(Field{"shared_embedding", "both stacks use one embedding", {}, false}, c.shared_embedding);
  visit(Field{"pooler", "a vector for a whole text"}, c.pooler);
  visit(Field{"task", "a head for classes, tags, answers or scores", {}, false}, c.task);
  visit(Field{"has_head", "without one the model computes no logits", {}, false}, c.has_head);
  visit(Field{"", "from vectors to logits"}, c.head);
}

/// The max_seq_len of a model that has no longest text.
inline constexpr std::int64_t kNoContextLimit = std::int64_t{1} << 31;

/// The number of the block whose parameters block `i` uses.
inline std::size_t params_block(const StackConfig& stack, std::size_t i) {
  return static_cast<std::size_t>(stack.blocks[i].same_as.value_or(static_cast<std::int64_t>(i)));
}

/// Throws BadInput for sizes that are out of range or contradict each other, Unsupported for options that the engine
/// does not implement. Messages begin with `where`.
void validate(const ModelConfig& config, std::string_view where);

SublayerNames names_of(const Sublayer& sublayer);
CacheLayerConfig cache_layer(const Sublayer& sublayer);
/// Those of sublayer `i`.
SumSites sum_sites(const BlockConfig& block, std::size_t i);
/// Whether the stream has a value between the first and the last sublayer (Site::resid_mid).
bool has_middle(const BlockConfig& block);
/// The number in the name of the norms of sublayer `i`: `ln2` for 2. An FFN after cross-attention has 3.
int norm_number(const BlockConfig& block, std::size_t i);

/// What layer `i` of a stack of `layers` reads. `source`: the encoder that the stack reads; null: none.
LayerPlace layer_place(const StackConfig& stack, std::size_t i, const std::string& prefix, const StackConfig* source);

/// The recurrent layer `i` of a stack; null if it has another kind of layers.
const RecurrentConfig* recurrent_layer(const StackConfig& config, std::size_t i);

/// The attention of layer `i` of a stack; null: the layer has none, or latent attention.
const AttentionConfig* attention_of(const StackConfig& config, std::size_t i);
/// The heads of attention of any kind in layer `i` of a stack; null: the layer has none.
const AttendConfig* heads_of(const StackConfig& config, std::size_t i);
/// RoPE of the attention of a block; null: none.
const RopeConfig* rope_of(const BlockConfig& block);
/// The largest number of query heads in a layer; 0 without attention.
std::int64_t max_heads(const StackConfig& config);

/// Whether a layer reads later positions. Such a stack has no cache, and does not predict the next token.
bool is_bidirectional(const StackConfig& config);

/// Whether all layers add to a residual stream (hook_resid_pre), so that a pass can begin at any of them.
bool has_stream(const StackConfig& config);

/// Whether a pass can begin at layer `i`, from its stream: neither it nor a later layer reads the keys and values of an
/// earlier one.
bool can_begin_at(const StackConfig& config, std::size_t i);

/// Elements of a layer's part of the inputs of per-layer embeddings; 0 without them.
std::int64_t per_layer_width(const StackConfig& config);

/// Whether the rows at every site belong to tokens of one sequence each, in order. Those of an encoder belong to
/// sources; cells visit the rows of all sequences step by step.
bool has_sequence_rows(const ModelConfig& config);

/// The end of the name of a layer's scalar (BlockConfig::scalar).
constexpr std::string_view kScalarName = ".layer_scalar.weight";

/// Whether training never changes the parameter that for_each_param calls `name`.
bool is_constant(const ModelConfig& config, std::string_view name);

/// Training keeps the elements of the parameter of that name within ± this number; absent: there is no limit.
std::optional<float> limit_of(const ModelConfig& config, std::string_view name);

/// The largest number of experts in a layer; 0 without experts.
std::int64_t max_experts(const ModelConfig& config);

/// What a cache keeps for each layer; empty for a model that has no cache (is_bidirectional).
std::vector<CacheLayerConfig> cache_layers(const ModelConfig& config);
/// The same for the cache of a source: keys and values of cross-attention, or of additive attention. Empty without.
std::vector<CacheLayerConfig> source_cache_layers(const ModelConfig& config);

/// The greatest length of a sequence, at most max_seq_len, whose RoPE frequencies in all blocks are those of a sequence
/// that is planned for `length` tokens.
std::int64_t longest_planned_length(const ModelConfig& config, std::int64_t length);

}  // namespace vitrine
