// The sites of a gated delta net.
#pragma once

#include "model/mixers/conv/sites.h"
#include "ops/attention_sites.h"

namespace vitrine {

enum class DeltaSite : std::uint8_t {
  mixer_in,
  in,
  q_pre_conv,
  k_pre_conv,
  v_pre_conv,
  conv_in,
  conv_out,
  q,
  k,
  v,
  beta_logit,
  beta,
  log_decay,
  state,
  carry,
  effective_attention,
  recurrence_out,
  gate_input,
  norm_scale,
  norm_normalized,
  norm_out,
  z,
  out,
  mixer_out,
};

/// Heads of keys, and elements of a head's key and value.
namespace dims {
inline constexpr Dim Hk{"Hk"};
inline constexpr Dim dk{"dk"};
inline constexpr Dim d_v{"dv"};
}  // namespace dims

inline constexpr auto kDeltaSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::mixer_input, kOnDemand, "hook_mixer_in", {T, d}, "a copy of the stream, the input of the mixer"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_in", {T, d}, "the input of a delta net, after the norm"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_q_pre_conv", {T, Hk, dk}, "queries before the convolution"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_k_pre_conv", {T, Hk, dk}, "keys before it"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_v_pre_conv", {T, H, d_v}, "values before it"},
      {SitePlace::mixer,
       kDefault,
       "linear_attn.conv1d.hook_in",
       {T, C},
       "queries, keys and values next to each other: the window of later tokens"},
      {SitePlace::mixer, kDefault, "linear_attn.conv1d.hook_out", {T, C}, "their convolution, before the activation"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_q", {T, Hk, dk}, "queries, before they get unit length"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_k", {T, Hk, dk}, "keys, before they get unit length"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_v", {T, H, d_v}, "values"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_beta_logit", {T, H}, "beta before the sigmoid"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_beta", {T, H}, "the share of a value's error that is written"},
      {SitePlace::mixer,
       kDefault,
       "linear_attn.hook_log_decay",
       {T, H},
       "the logarithm of what the state keeps; of a decay by channel [T, H, dk]"},
      {SitePlace::mixer,
       kOnDemand,
       "linear_attn.hook_ssm_state",
       {T, H, dk, d_v},
       "the state after each token, as the token's own output reads it: a write changes this output alone"},
      {SitePlace::mixer,
       kOnDemand,
       "linear_attn.hook_ssm_carry",
       {T, H, dk, d_v},
       "the state after each token, as the next token finds it: a write changes all later ones"},
      {SitePlace::mixer,
       kOnDemand,
       "linear_attn.hook_effective_attention",
       {T, H, T},
       "M, with which the output i of the recurrence is Σ_j M[i, h, j] v_j; read only"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_recurrence_out", {T, H, d_v}, "what queries read of the state"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_gate_input", {T, H, d_v}, "the gate of the output"},
      {SitePlace::mixer, kDefault, "linear_attn.norm.hook_scale", {T, H, one}, "the divisor of the norm by head"},
      {SitePlace::mixer, kDefault, "linear_attn.norm.hook_normalized", {T, H, d_v}, "normalized, before the weight"},
      {SitePlace::mixer, kDefault, "linear_attn.norm.hook_out", {T, H, d_v}, "after the weight, before the gate"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_z", {T, H, d_v}, "after the gate: the input of the output matrix"},
      {SitePlace::mixer, kDefault, "linear_attn.hook_out", {T, d}, "the output of a delta net"},
      {SitePlace::mixer_output, kDefault, "hook_mixer_out", {T, d}, "as it is added to the stream", 94},
  });
}();
inline constexpr SiteTable kDeltaSiteTable{"delta net", kDeltaSites};
constexpr const SiteTable& sites_of(DeltaSite) { return kDeltaSiteTable; }
inline constexpr NormSites kDeltaNorm{DeltaSite::norm_scale, DeltaSite::norm_normalized, DeltaSite::norm_out};
static_assert(kDeltaSites.size() == static_cast<std::size_t>(DeltaSite::mixer_out) + 1);

}  // namespace vitrine
