// The configuration and the parameters of attention and of cross-attention.
#pragma once

#include "model/mixers/mixer.h"
#include "ops/attend.h"
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

struct AttentionParams {
  LinearParams wq, wk, wv, wo;
  NormParams q_norm, k_norm;  ///< If the config has qk_norm.
};

struct AttentionConfig : AttendConfig {
  using Params = AttentionParams;

  bool bidirectional = false;            ///< Queries also attend to later positions.
  std::optional<std::int64_t> window{};  ///< In tokens, including the query's own; absent: no limit.
  std::optional<RopeConfig> rope{};
  bool qkv_bias = false;
  bool out_bias = false;
  std::optional<float> qkv_clip{};  ///< q, k and v are clamped to ± this number after their projection.
  std::optional<QkNormConfig> qk_norm{};

  Mask mask() const { return {bidirectional ? Mask::Kind::full : Mask::Kind::causal, window}; }

  bool operator==(const AttentionConfig&) const = default;
};

struct CrossAttentionParams : AttentionParams {};

/// Attention whose keys and values are computed from the encoder's output. It has neither RoPE nor a window.
struct CrossAttentionConfig : AttentionConfig {
  using Params = CrossAttentionParams;

  bool operator==(const CrossAttentionConfig&) const = default;
};

}  // namespace vitrine
