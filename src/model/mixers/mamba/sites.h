// The sites of Mamba and of Mamba-2.
#pragma once

#include "model/mixers/conv/sites.h"
#include "ops/attention_sites.h"

namespace vitrine {

enum class MambaSite : std::uint8_t {
  mixer_in,
  in,
  proj_out,
  conv_in,
  conv_out,
  x_proj_out,
  dt_proj_out,
  ssm_dt,
  ssm_b,
  ssm_c,
  write,
  state,
  carry,
  effective_attention,
  norm_in,
  norm_gate,
  norm_scale,
  norm_normalized,
  norm_out,
  out,
  mixer_out,
};

/// Groups of B and C, elements of a head (of Mamba the channels of one head) and of B.
namespace dims {
inline constexpr Dim G{"G"};
inline constexpr Dim P{"P"};
inline constexpr Dim N{"N"};
}  // namespace dims

inline constexpr auto kMambaSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::mixer_input, kOnDemand, "hook_mixer_in", {T, d}, "a copy of the stream, the input of the mixer"},
      {SitePlace::mixer, kDefault, "mixer.hook_in", {T, d}, "the input of Mamba, after the norm"},
      {SitePlace::mixer, kDefault, "mixer.in_proj.hook_out", {T, m}, "all that is projected from it"},
      {SitePlace::mixer, kDefault, "mixer.conv1d.hook_in", {T, C}, "what is convolved: the window of later tokens"},
      {SitePlace::mixer, kDefault, "mixer.conv1d.hook_out", {T, C}, "its convolution, before the activation"},
      {SitePlace::mixer, kDefault, "mixer.x_proj.hook_out", {T, m}, "Mamba: dt, B and C, next to each other"},
      {SitePlace::mixer, kDefault, "mixer.dt_proj.hook_out", {T, C}, "Mamba: dt before softplus"},
      {SitePlace::mixer, kDefault, "mixer.hook_ssm_dt", {T, H}, "the size of a step, after softplus; of Mamba [T, C]"},
      {SitePlace::mixer, kDefault, "mixer.hook_ssm_B", {T, G, N}, "B: where a step writes"},
      {SitePlace::mixer, kDefault, "mixer.hook_ssm_C", {T, G, N}, "C: what an output reads"},
      {SitePlace::mixer,
       kOnDemand,
       "mixer.hook_ssm_write",
       {T, H, P, N},
       "dt x Bᵀ, as it is added to the state; of Mamba [T, C, N]. A write changes this state and all later ones"},
      {SitePlace::mixer,
       kOnDemand,
       "mixer.hook_ssm_state",
       {T, H, P, N},
       "the state after each token, as the token's own output reads it: a write changes this output alone"},
      {SitePlace::mixer,
       kOnDemand,
       "mixer.hook_ssm_carry",
       {T, H, P, N},
       "the state after each token, as the next token finds it: a write changes all later ones"},
      {SitePlace::mixer,
       kOnDemand,
       "mixer.hook_effective_attention",
       {T, H, T},
       "M, with which the state gives Σ_j M[i, h, j] x_j to output i, without D x; of Mamba [T, C, T]; read only"},
      {SitePlace::mixer, kDefault, "mixer.inner_norm.hook_in", {T, C}, "y + D x, before the gate and the norm"},
      {SitePlace::mixer, kDefault, "mixer.inner_norm.hook_gate", {T, C}, "the gate z, before its activation"},
      {SitePlace::mixer, kDefault, "mixer.inner_norm.hook_scale", {T, G, one}, "the divisor of the norm by group"},
      {SitePlace::mixer, kDefault, "mixer.inner_norm.hook_normalized", {T, G, m}, "normalized, before the weight"},
      {SitePlace::mixer, kDefault, "mixer.inner_norm.hook_out", {T, C}, "the input of the output projection"},
      {SitePlace::mixer, kDefault, "mixer.hook_out", {T, d}, "the output of Mamba"},
      {SitePlace::mixer_output, kDefault, "hook_mixer_out", {T, d}, "as it is added to the stream", 95},
  });
}();
inline constexpr SiteTable kMambaSiteTable{"mamba", kMambaSites};
constexpr const SiteTable& sites_of(MambaSite) { return kMambaSiteTable; }
static_assert(kMambaSites.size() == static_cast<std::size_t>(MambaSite::mixer_out) + 1);

}  // namespace vitrine
