// The sites of attention, which cross-attention has under names of its own.
#pragma once

#include "pass/sites.h"

namespace vitrine {

enum class AttentionSite : std::uint8_t {
  attn_in,
  q_input,
  k_input,
  v_input,
  cross_attn_in,
  lora_q,
  q,
  lora_k,
  k,
  lora_v,
  v,
  q_norm_scale,
  q_norm_normalized,
  q_norm_out,
  k_norm_scale,
  k_norm_normalized,
  k_norm_out,
  v_norm_scale,
  v_norm_normalized,
  v_norm_out,
  rot_q,
  rot_k,
  query_scale,
  rel_pos_q,
  rel_pos_k,
  scores_raw,
  scores,
  pattern,
  sink,
  z,
  gate,
  result,
  lora_out,
  attn_proj,
  attn_out,
};

/// H query heads, K key/value heads, dh head_dim. A norm of q or k is over Nq or Nk groups of nq or nk elements: a
/// group is one head, or all heads.
namespace dims {
inline constexpr Dim H{"H"};
inline constexpr Dim K{"K"};
inline constexpr Dim dh{"dh"};
inline constexpr Dim Nq{"Nq"};
inline constexpr Dim nq{"nq"};
inline constexpr Dim Nk{"Nk"};
inline constexpr Dim nk{"nk"};
inline constexpr Dim D{"D"};  // rows of the table of relative positions
}  // namespace dims

inline constexpr auto kAttentionSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::mixer_input,
       kOnDemand,
       "hook_attn_in",
       {T, H, d},
       "a copy of resid_pre per query head; each K/V head reads that of its first query head"},
      {SitePlace::mixer_input, kOnDemand, "hook_q_input", {T, H, d}, "the input of each query head, before ln1"},
      {SitePlace::mixer_input, kOnDemand, "hook_k_input", {T, K, d}, "the input of each key head, before ln1"},
      {SitePlace::mixer_input, kOnDemand, "hook_v_input", {T, K, d}, "the input of each value head, before ln1"},
      {SitePlace::mixer_input, kOnDemand, "hook_cross_attn_in", {T, d}, "the input of cross-attention, before ln2"},
      {SitePlace::mixer, kDefault, "attn.hook_lora_q", {T, H, dh}, "what adapters add to the queries", 16},
      {SitePlace::mixer,
       kDefault,
       "attn.hook_q",
       {T, H, dh},
       "queries, with bias and clip, before their norm and RoPE"},
      {SitePlace::mixer, kDefault, "attn.hook_lora_k", {T, K, dh}, "what adapters add to the keys", 18},
      {SitePlace::mixer,
       kDefault,
       "attn.hook_k",
       {T, K, dh},
       "keys of this pass, with bias and clip, before their norm and RoPE; in a layer that reads those of another: as "
       "they are read, after both"},
      {SitePlace::mixer, kDefault, "attn.hook_lora_v", {T, K, dh}, "what adapters add to the values", 20},
      {SitePlace::mixer,
       kDefault,
       "attn.hook_v",
       {T, K, dh},
       "values of this pass, with bias and clip, before their norm; in a layer that reads those of another: as they "
       "are "
       "read"},
      {SitePlace::mixer, kDefault, "attn.q_norm.hook_scale", {T, Nq, one}, "the divisor of the norm of q"},
      {SitePlace::mixer, kDefault, "attn.q_norm.hook_normalized", {T, Nq, nq}, "normalized, before the weight"},
      {SitePlace::mixer, kDefault, "attn.q_norm.hook_out", {T, Nq, nq}, "after the weight"},
      {SitePlace::mixer, kDefault, "attn.k_norm.hook_scale", {T, Nk, one}, "the divisor of the norm of k"},
      {SitePlace::mixer, kDefault, "attn.k_norm.hook_normalized", {T, Nk, nk}, "normalized, before the weight"},
      {SitePlace::mixer, kDefault, "attn.k_norm.hook_out", {T, Nk, nk}, "after the weight"},
      {SitePlace::mixer, kDefault, "attn.v_norm.hook_scale", {T, K, one}, "the divisor of the norm of v"},
      {SitePlace::mixer, kDefault, "attn.v_norm.hook_normalized", {T, K, dh}, "normalized: the norm has no weight"},
      {SitePlace::mixer, kDefault, "attn.v_norm.hook_out", {T, K, dh}, "the values that attention reads"},
      {SitePlace::mixer, kDefault, "attn.hook_rot_q", {T, H, dh}, "queries after RoPE"},
      {SitePlace::mixer, kDefault, "attn.hook_rot_k", {T, K, dh}, "keys after RoPE"},
      {SitePlace::mixer,
       kDefault,
       "attn.hook_query_scale",
       {T},
       "what multiplies the queries, after RoPE and their norm: it grows with the position"},
      {SitePlace::mixer,
       kDefault,
       "attn.hook_rel_pos",
       {T, H, D},
       "scores of each query by the row of its distance to a key (content to position)"},
      {SitePlace::mixer,
       kDefault,
       "attn.hook_rel_pos_k",
       {T, H, D},
       "scores of each key by the row of the distance of a query (position to content)"},
      {SitePlace::mixer,
       kDefault,
       "attn.hook_scores_raw",
       {H, T, S},
       "q·k times the score scale, before relative bias and positions, softcap and mask; −∞ for keys that have left "
       "the cache"},
      {SitePlace::mixer, kDefault, "attn.hook_attn_scores", {H, T, S}, "after bias, softcap and mask; −∞ where masked"},
      {SitePlace::mixer, kDefault, "attn.hook_pattern", {H, T, S}, "softmax of the scores over S", 32},
      {SitePlace::mixer,
       kDefault,
       "attn.hook_sink",
       {T, H},
       "the probability that goes nowhere: the rows of the pattern sum to 1 minus this; read only"},
      {SitePlace::mixer, kDefault, "attn.hook_z", {T, H, dh}, "pattern × V for each head, before the output gate"},
      {SitePlace::mixer,
       kDefault,
       "attn.hook_gate",
       {T, H, dh},
       "the output gate after its sigmoid, which multiplies z"},
      {SitePlace::mixer, kOnDemand, "attn.hook_result", {T, H, d}, "the output of wo for each head, without bias"},
      {SitePlace::mixer, kDefault, "attn.hook_lora_out", {T, d}, "what adapters add to the output of wo", 35},
      {SitePlace::mixer, kDefault, "attn.hook_out", {T, d}, "after wo and its bias, before the post-norm"},
      {SitePlace::mixer_output, kDefault, "hook_attn_out", {T, d}, "the output of attention, added to the stream", 40},
  });
}();
inline constexpr SiteTable kAttentionSiteTable{"attention", kAttentionSites};
constexpr const SiteTable& sites_of(AttentionSite) { return kAttentionSiteTable; }
inline constexpr NormSites kQNorm{AttentionSite::q_norm_scale, AttentionSite::q_norm_normalized,
                                  AttentionSite::q_norm_out};
inline constexpr NormSites kKNorm{AttentionSite::k_norm_scale, AttentionSite::k_norm_normalized,
                                  AttentionSite::k_norm_out};
inline constexpr NormSites kVNorm{AttentionSite::v_norm_scale, AttentionSite::v_norm_normalized,
                                  AttentionSite::v_norm_out};
static_assert(kAttentionSites.size() == static_cast<std::size_t>(AttentionSite::attn_out) + 1);

}  // namespace vitrine
