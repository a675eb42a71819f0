// The configuration and the parameters of attention and of cross-attention.
#pragma once

#include <array>
#include <string_view>

#include "model/mixers/mixer.h"
#include "ops/attend.h"
#include "ops/query_scale.h"
#include "ops/rope.h"

namespace vitrine {

/// A norm of q and k.
struct QkNormConfig {
  /// head: over each head, with one weight `[head_dim]` for all heads. head_own_weight: over each head, with a weight
  /// for each, `[n_heads · head_dim]`. all_heads: over all heads as one vector, with a weight `[n_heads · head_dim]`.
  enum class Over : std::uint8_t { head, head_own_weight, all_heads };

  NormConfig norm;
  Over over = Over::head;
  bool after_rope = false;  ///< Else before it.

  bool operator==(const QkNormConfig&) const = default;
};

constexpr std::array<std::string_view, 3> words(QkNormConfig::Over) { return {"head", "head_own_weight", "all_heads"}; }
template <ConfigOf<QkNormConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"over", "each head, each head with a weight of its own, or all heads as one vector", {}, false}, c.over);
  visit(Field{"norm", "the norm"}, c.norm);
  visit(Field{"after_rope", "the norm of q and k follows RoPE"}, c.after_rope);
}

/// Scores by relative position (ops/position_scores.h): of queries (c2p), of keys (p2c), or both.
struct PositionTermsConfig {
  bool of_queries = false;
  bool of_keys = false;
  bool shares = false;  ///< The table goes through the projections of k and q, else through projections of its own.

  bool operator==(const PositionTermsConfig&) const = default;
};

template <ConfigOf<PositionTermsConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  visit(Field{"of_queries", "scores of a query by the distance to a key", {}, false}, c.of_queries);
  visit(Field{"of_keys", "scores of a key by the distance of a query", {}, false}, c.of_keys);
  visit(Field{"shares", "they use the projections of k and q", {}, false}, c.shares);
}

struct AttentionParams {
  LinearParams wq, wk, wv, wo;    ///< wk and wv only if the layer has keys and values of its own, wv if they differ.
  NormParams q_norm, k_norm;      ///< If the config has qk_norm.
  Param sinks;                    ///< `[n_heads]`, if the config has a sink.
  LinearParams w_gate;            ///< If the config has an output gate.
  LinearParams w_pos_k, w_pos_q;  ///< Of the table of positions, if its terms do not share wk and wq.
};

struct AttentionConfig : AttendConfig {
  using Params = AttentionParams;
  static constexpr std::string_view kName = "attention";

  bool bidirectional = false;            ///< Queries also attend to later positions.
  std::optional<std::int64_t> window{};  ///< In tokens, including the query's own; absent: no limit.
  bool chunked = false;  ///< The window is the query's chunk: a chunk begins at each multiple of `window`.
  std::optional<RopeConfig> rope{};
  bool qkv_bias = false;
  bool out_bias = false;
  float key_scale = 1.0f;           ///< Factor of the keys.
  float value_scale = 1.0f;         ///< Factor of the values.
  std::optional<float> qkv_clip{};  ///< q, k and v are clamped to ± this number after their projection.
  std::optional<QkNormConfig> qk_norm{};
  std::optional<NormConfig> v_norm{};  ///< Of the values, over each head; without a weight.
  bool values_are_keys = false;        ///< Values are the projection to the keys, before the norm and RoPE of these.
  /// The earlier layer of the stack whose keys and values it reads: it has neither projections to them nor a cache.
  std::optional<std::int64_t> kv_layer{};
  std::optional<QueryScaleConfig> query_scale{};
  std::optional<PositionTermsConfig> position_terms{};
  bool out_gate = false;   ///< z is multiplied by sigmoid(x · w_gate) before the output projection.
  bool gate_bias = false;  ///< w_gate has a bias, if there is an output gate.

  Mask mask() const { return {bidirectional ? Mask::Kind::full : Mask::Kind::causal, window, chunked}; }

  bool operator==(const AttentionConfig&) const = default;
};

template <ConfigOf<AttentionConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  for_each_field(base_of<AttendConfig>(c), visit);
  visit(Field{"bidirectional", "attends to later tokens, too"}, c.bidirectional);
  visit(Field{"window", "attends to the last `window` tokens, its own included", "none"}, c.window);
  if (c.window) {
    visit(Field{"chunked", "the window is the token's chunk: a chunk begins at each multiple of `window`"}, c.chunked);
  }
  visit(Field{"rope", "rotary position embedding"}, c.rope);
  visit(Field{"qkv_bias", "biases of the projections to q, k and v"}, c.qkv_bias);
  visit(Field{"out_bias", "bias of the output projection"}, c.out_bias);
  visit(Field{"key_scale", "factor of the keys"}, c.key_scale);
  visit(Field{"value_scale", "factor of the values"}, c.value_scale);
  visit(Field{"qkv_clip", "q, k and v are clamped to ± this number after their projection"}, c.qkv_clip);
  visit(Field{"qk_norm", "a norm of q and k"}, c.qk_norm);
  visit(Field{"v_norm", "a norm of the values, over each head"}, c.v_norm);
  visit(Field{"values_are_keys", "values are the projection to the keys, before the norm and RoPE of these"},
        c.values_are_keys);
  visit(Field{"kv_layer", "the earlier layer whose keys and values it reads", {}, false}, c.kv_layer);
  visit(Field{"query_scale", "a factor of the queries that grows with the position"}, c.query_scale);
  visit(Field{"position_terms", "scores by relative position", {}, false}, c.position_terms);
  visit(Field{"out_gate", "the heads' outputs are multiplied by sigmoid(x · w_gate)"}, c.out_gate);
  if (c.out_gate) visit(Field{"gate_bias", "bias of w_gate"}, c.gate_bias);
}

struct CrossAttentionParams : AttentionParams {};

/// Attention whose keys and values are computed from the encoder's output. It has neither RoPE nor ALiBi nor a window.
struct CrossAttentionConfig : AttentionConfig {
  using Params = CrossAttentionParams;
  static constexpr std::string_view kName = "cross_attention";

  bool operator==(const CrossAttentionConfig&) const = default;
};

template <ConfigOf<CrossAttentionConfig> C, class Visit>
void for_each_field(C& c, Visit&& visit) {
  for_each_field(base_of<AttentionConfig>(c), visit);
}

}  // namespace vitrine
