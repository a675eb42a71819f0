// What a model is, as data: sizes and choices, resolved for every layer. No family has a name here.
//
// Numbers that others derive at use (head_dim, score_scale, rope frequencies) are resolved when the config is read.
// Absent is std::optional, never 0 or −1.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "cache/kv_cache.h"
#include "ops/attend.h"
#include "ops/norm.h"
#include "ops/rope.h"

namespace vitrine {

struct EmbeddingConfig {
  float scale = 1.0f;              ///< Token embeddings are multiplied by it.
  bool learned_positions = false;  ///< A table of max_seq_len position vectors is added.

  bool operator==(const EmbeddingConfig&) const = default;
};

/// A norm of q and k, before RoPE.
struct QkNormConfig {
  /// What is normalized: each head, with one weight `[head_dim]` for all heads; each head, with a weight of its own,
  /// `[n_heads · head_dim]`; or all heads as one vector, with a weight `[n_heads · head_dim]`.
  enum class Over : std::uint8_t { head, head_own_weight, all_heads };

  NormConfig norm;
  Over over = Over::head;

  bool operator==(const QkNormConfig&) const = default;
};

struct AttentionConfig : AttendConfig {
  std::optional<std::int64_t> window;  ///< Tokens that a query sees, its own included; absent: all before it.
  std::optional<RopeConfig> rope;
  bool qkv_bias = false;
  bool out_bias = false;
  std::optional<QkNormConfig> qk_norm;

  Mask mask() const { return {Mask::Kind::causal, window}; }

  bool operator==(const AttentionConfig&) const = default;
};

struct DenseConfig {
  std::int64_t d_ff = 0;
  Activation activation = Activation::silu;
  bool gated = true;  ///< act(x·w_gate) ⊙ x·w_up, else act(x·w_up).
  bool bias = false;

  bool operator==(const DenseConfig&) const = default;
};

/// Weights are the softmax of the router's logits over all experts; a token's top_k largest choose its experts.
struct MoeConfig {
  std::int64_t n_experts = 0;
  std::int64_t top_k = 0;
  DenseConfig expert;
  /// The chosen weights are divided by their sum: the softmax over the chosen logits alone (top-k first).
  bool renormalize = true;
  std::optional<DenseConfig> shared;  ///< An expert of every token, times sigmoid(x · shared_gate).

  bool operator==(const MoeConfig&) const = default;
};

/// A norm stands before or behind its sublayer, inside the residual branch; absent ones are the identity.
struct BlockNorms {
  std::optional<NormConfig> attn_pre;
  std::optional<NormConfig> attn_post;
  std::optional<NormConfig> ffn_pre;
  std::optional<NormConfig> ffn_post;
  bool ffn_reads_attn_pre = false;  ///< The FFN of a parallel block reads what attn_pre has made; ffn_pre is absent.

  bool operator==(const BlockNorms&) const = default;
};

struct BlockConfig {
  /// Serial: the FFN reads the stream with attention's output added; parallel: both read the stream before the block.
  enum class Residual : std::uint8_t { serial, parallel };
  enum class NormPlace : std::uint8_t { inside_branch, after_residual };

  std::variant<AttentionConfig> mixer;  ///< What moves information between tokens.
  std::optional<AttentionConfig> cross_attention;
  std::variant<DenseConfig, MoeConfig> ffn;
  BlockNorms norms;
  Residual residual = Residual::serial;
  NormPlace norm_place = NormPlace::inside_branch;
  float residual_scale = 1.0f;  ///< Of what attention and FFN add to the stream.

  AttentionConfig& attention() { return std::get<AttentionConfig>(mixer); }
  const AttentionConfig& attention() const { return std::get<AttentionConfig>(mixer); }

  bool operator==(const BlockConfig&) const = default;
};

struct HeadConfig {
  bool tied = false;  ///< The head is the token embedding.
  bool bias = false;
  float scale = 1.0f;  ///< Logits are multiplied by it, before the softcap.
  std::optional<float> softcap;

  bool operator==(const HeadConfig&) const = default;
};

struct ModelConfig {
  std::int64_t d_model = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_seq_len = 0;
  EmbeddingConfig embedding;
  std::vector<BlockConfig> encoder;  ///< Empty: decoder-only.
  std::vector<BlockConfig> blocks;
  NormConfig final_norm;
  HeadConfig head;

  bool operator==(const ModelConfig&) const = default;
};

/// Throws BadInput where sizes contradict each other, Unsupported where the engine does not compute what a field asks
/// for. `where` stands in the message.
void validate(const ModelConfig& config, std::string_view where);

/// Experts of the layer that has most of them; 0 where none has any.
std::int64_t most_experts(const ModelConfig& config);

/// What the cache of a sequence must hold, layer by layer.
std::vector<KvLayerConfig> kv_layers(const ModelConfig& config);

}  // namespace vitrine
