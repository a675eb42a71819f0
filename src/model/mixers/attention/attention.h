// The attention sublayer: projections, RoPE, attention, output projection.
//
//               x [T, d]
//        ┌─────────┼─────────┐
//       wq         wk        wv          + bias
//   q [T,H,dh]  k [T,K,dh]  v [T,K,dh]
//     (norm)     (norm)      │
//      rope       rope       │                the norm can also follow RoPE
//        └────── attend ─────┘  ◀──▶ KV cache
//             z [T, H, dh]              (· sigmoid(x · w_gate + bias), if there is an output gate)
//                 wo                     + bias
//             out [T, d]
//
// Cross-attention is the same sublayer, whose k and v are projections of the encoder's output (Vaswani et al. 2017).
#pragma once

#include "model/mixers/attention/config.h"
#include "model/param_list.h"
#include "ops/attention_sites.h"

namespace vitrine {

constexpr SublayerNames names_of(const AttentionConfig&) {
  return {"attn",          "attention", AttentionSite::attn_in,   AttentionSite::attn_out, norms::ln1,
          norms::ln1_post, 1,           AttentionSite::scores_raw};
}
constexpr SublayerNames names_of(const CrossAttentionConfig&) {
  return {.prefix = "cross_attn",
          .role = "cross-attention",
          .in = AttentionSite::cross_attn_in,
          .out = AttentionSite::attn_out,
          .pre = norms::ln1,
          .post = norms::ln1_post,
          .norm = 2,
          .kept = AttentionSite::scores_raw,
          .is_cross = true};
}

inline std::optional<HeadOutputs> head_outputs(const AttentionConfig& c, const AttentionParams& w) {
  HeadOutputs heads{w.wo, c.n_heads, AttentionSite::z, AttentionSite::attn_proj};
  if (c.out_gate) heads.gate = AttentionSite::gate;
  return heads;
}
inline std::optional<HeadOutputs> head_outputs(const CrossAttentionConfig& c, const CrossAttentionParams& w) {
  return HeadOutputs{w.wo, c.n_heads, AttentionSite::z, AttentionSite::attn_proj};
}

constexpr const SiteTable& site_table(const AttentionConfig&) { return kAttentionSiteTable; }
constexpr const SiteTable& site_table(const CrossAttentionConfig&) { return kAttentionSiteTable; }

void check(std::string_view where, const AttentionConfig& c);
void check(std::string_view where, const CrossAttentionConfig& c);
void list_params(ParamList& list, const std::string& at, const AttentionConfig& c, AttentionParams& w, Widths d);
void list_params(ParamList& list, const std::string& at, const CrossAttentionConfig& c, CrossAttentionParams& w,
                 Widths d);
CacheLayerConfig cache_layer(const AttentionConfig& c);
CacheLayerConfig cache_layer(const CrossAttentionConfig& c);  ///< In the cache of the source.

/// Taps hook_attn_in, hook_q_input, hook_k_input and hook_v_input.
void tap_input(Pass& p, BlockSite at, const AttentionConfig& c, SublayerInput& in);
void tap_input(Pass& p, BlockSite at, const CrossAttentionConfig& c, SublayerInput& in);
/// `[T, d]`: the sublayer's output, before the post-norm. It has no data if the pass needs only keys and values.
Tensor forward(Pass& p, BlockSite at, const AttentionConfig& c, const AttentionParams& w, const SublayerInput& in);
Tensor forward(Pass& p, BlockSite at, const CrossAttentionConfig& c, const CrossAttentionParams& w,
               const SublayerInput& in);

std::optional<double> gguf_word(const AttentionConfig& c, std::string_view word);
std::optional<double> gguf_word(const CrossAttentionConfig& c, std::string_view word);
void divide(WeightDivider& divider, AttentionConfig& c, AttentionParams& w);

}  // namespace vitrine
