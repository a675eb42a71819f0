// The architecture of a model as data: sizes and options, resolved for every layer. Model families are not named here.
//
// Derived numbers (head_dim, score_scale, RoPE frequencies) are computed when the config is read. Absent values are
// std::optional, never 0 or −1.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "cache/kv_cache.h"
#include "ops/attend.h"
#include "ops/embed.h"
#include "ops/norm.h"
#include "ops/recurrent.h"
#include "ops/relative_bias.h"
#include "ops/rope.h"

namespace vitrine {

struct EmbeddingConfig {
  float scale = 1.0f;           ///< Factor of the token embeddings.
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

/// A norm of q and k, before RoPE.
struct QkNormConfig {
  /// head: over each head, with one weight `[head_dim]` for all heads. head_own_weight: over each head, with a weight
  /// for each, `[n_heads · head_dim]`. all_heads: over all heads as one vector, with a weight `[n_heads · head_dim]`.
  enum class Over : std::uint8_t { head, head_own_weight, all_heads };

  NormConfig norm;
  Over over = Over::head;

  bool operator==(const QkNormConfig&) const = default;
};

struct AttentionConfig : AttendConfig {
  bool bidirectional = false;          ///< Queries also attend to later positions.
  std::optional<std::int64_t> window;  ///< In tokens, including the query's own; absent: no limit.
  std::optional<RopeConfig> rope;
  bool qkv_bias = false;
  bool out_bias = false;
  std::optional<QkNormConfig> qk_norm;

  Mask mask() const { return {bidirectional ? Mask::Kind::full : Mask::Kind::causal, window}; }

  bool operator==(const AttentionConfig&) const = default;
};

/// A recurrent layer replaces the stream by the states of its cell.
struct RecurrentConfig : CellConfig {
  /// Where the state before a decoder's first token comes from: the encoder's last state of the same layer, as it is,
  /// or tanh(W [→h ; ←h] + b). Absent: zeros.
  enum class Bridge : std::uint8_t { copy, linear };

  bool bidirectional = false;  ///< A second cell reads the tokens in reverse; rows are [→h ; ←h].
  std::optional<Bridge> bridge;
  /// The inner size of additive attention to the encoder's output, whose result the cell reads after its input
  /// (Bahdanau et al. 2014). Only in the first layer of a decoder.
  std::optional<std::int64_t> d_attention;

  std::int64_t width() const { return bidirectional ? 2 * d_hidden : d_hidden; }
  bool operator==(const RecurrentConfig&) const = default;
};

/// A dense layer replaces the stream by act(x · W + b).
struct PerceptronConfig {
  std::int64_t d_hidden = 0;
  Activation activation = Activation::silu;

  bool operator==(const PerceptronConfig&) const = default;
};

struct DenseConfig {
  std::int64_t d_ff = 0;
  Activation activation = Activation::silu;
  bool gated = true;  ///< act(x·w_gate) ⊙ x·w_up, else act(x·w_up).
  bool bias = false;

  bool operator==(const DenseConfig&) const = default;
};

/// Weights are the softmax of the router's logits over all experts. A token uses its top_k experts by weight.
struct MoeConfig {
  std::int64_t n_experts = 0;
  std::int64_t top_k = 0;
  DenseConfig expert;
  /// Divides the chosen weights by their sum, which equals a softmax over the chosen logits alone.
  bool renormalize = true;
  std::optional<DenseConfig> shared;  ///< An expert that every token uses, times sigmoid(x · shared_gate).

  bool operator==(const MoeConfig&) const = default;
};

/// The norms before and after a sublayer, inside the residual branch, and that of the sum of stream and branch. Absent
/// norms are the identity.
struct SublayerNorms {
  std::optional<NormConfig> pre, post, sum;

  bool operator==(const SublayerNorms&) const = default;
};

struct BlockNorms {
  SublayerNorms attn, cross_attn, ffn;
  bool ffn_reads_attn_pre = false;  ///< The FFN of a parallel block reads the output of attn.pre; ffn.pre is absent.

  bool operator==(const BlockNorms&) const = default;
};

struct BlockConfig {
  /// Serial: the FFN reads the stream after attention. Parallel: both read the stream before the block.
  enum class Residual : std::uint8_t { serial, parallel };

  /// Attention, the first sublayer of a Transformer's block; all other members configure the rest of that block. A
  /// recurrent or dense layer is a block by itself.
  std::variant<AttentionConfig, RecurrentConfig, PerceptronConfig> mixer;
  std::optional<AttentionConfig> cross_attention;  ///< Its keys and values are computed from the encoder's output.
  std::variant<DenseConfig, MoeConfig> ffn;
  BlockNorms norms;
  Residual residual = Residual::serial;
  float residual_scale = 1.0f;  ///< Factor of the sublayers' outputs before they are added to the stream.

  AttentionConfig& attention() { return std::get<AttentionConfig>(mixer); }
  const AttentionConfig& attention() const { return std::get<AttentionConfig>(mixer); }
  bool has_attention() const { return std::holds_alternative<AttentionConfig>(mixer); }
  const RecurrentConfig* recurrent() const { return std::get_if<RecurrentConfig>(&mixer); }

  bool operator==(const BlockConfig&) const = default;
};

/// A layer between the final norm and the unembedding: norm(act(x · dense + bias)) (Devlin et al. 2018).
struct HeadTransform {
  Activation activation = Activation::gelu_erf;
  NormConfig norm;

  bool operator==(const HeadTransform&) const = default;
};

struct HeadConfig {
  std::optional<HeadTransform> transform;
  bool tied = false;  ///< The head uses the weight of the token embedding.
  bool bias = false;
  bool is_bias_trained = true;  ///< False for a bias that is a constant of the checkpoint.
  float scale = 1.0f;           ///< Factor of the logits, before the softcap.
  std::optional<float> softcap;

  bool operator==(const HeadConfig&) const = default;
};

/// A vector for a whole text, from its first row: tanh(x[0] · dense + bias) (Devlin et al. 2018).
struct PoolerConfig {
  /// From it, two logits: whether the second part of the text follows the first (0), or is any other (1).
  bool next_sentence = false;

  bool operator==(const PoolerConfig&) const = default;
};

/// A stack of blocks, from token ids to vectors.
struct StackConfig {
  std::int64_t d_model = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_seq_len = 0;
  EmbeddingConfig embedding;
  std::optional<RelativeBiasConfig> relative_bias;  ///< Of the scores of attention within the stack, in all layers.
  std::vector<BlockConfig> blocks;
  std::optional<NormConfig> final_norm;

  /// Elements of a row of the stream before layer `i`; for i = blocks.size() after the last layer.
  std::int64_t width_before(std::size_t i) const;
  std::int64_t output_width() const { return width_before(blocks.size()); }

  bool operator==(const StackConfig&) const = default;
};

/// A model is a stack with a head. In an encoder–decoder the stack is the decoder, and its cross-attention reads the
/// output of another stack, the encoder.
struct ModelConfig : StackConfig {
  std::optional<StackConfig> encoder;
  bool shared_embedding = false;  ///< The encoder uses the decoder's token embedding.
  std::optional<PoolerConfig> pooler;
  bool has_head = true;  ///< Without one the model computes vectors, but no logits.
  HeadConfig head;

  /// The name of the model's own stack in sites and parameters.
  Stack stack() const { return encoder ? Stack::decoder : Stack::only; }

  bool operator==(const ModelConfig&) const = default;
};

/// Throws BadInput for sizes that are out of range or contradict each other, Unsupported for options that the engine
/// does not implement. Messages begin with `where`.
void validate(const ModelConfig& config, std::string_view where);

/// Whether a layer reads later positions. Such a stack has no cache, and does not predict the next token.
bool is_bidirectional(const StackConfig& config);

/// Whether all layers add to a residual stream (hook_resid_pre), so that a pass can begin at any of them.
bool has_stream(const StackConfig& config);

/// Whether the rows at every site belong to tokens of one sequence each, in order. Those of an encoder belong to
/// sources; cells visit the rows of all sequences step by step.
bool has_sequence_rows(const ModelConfig& config);

/// Whether training never changes the parameter that for_each_param calls `name`.
bool is_constant(const ModelConfig& config, std::string_view name);

/// The largest number of experts in a layer; 0 without experts.
std::int64_t most_experts(const ModelConfig& config);

/// What a cache keeps for each layer; empty for a model that has no cache (is_bidirectional).
std::vector<CacheLayerConfig> cache_layers(const ModelConfig& config);
/// The same for the cache of a source: keys and values of cross-attention, or of additive attention. Empty without.
std::vector<CacheLayerConfig> source_cache_layers(const ModelConfig& config);

/// The greatest length of a sequence, at most max_seq_len, whose RoPE frequencies in all blocks are those of a sequence
/// that is planned for `length` tokens.
std::int64_t longest_planned_length(const ModelConfig& config, std::int64_t length);

}  // namespace vitrine
