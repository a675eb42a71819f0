// The sites of latent attention that other attention lacks, or has with another meaning. Its scores, patterns, outputs
// and what adapters add are at the sites of ops/attention_sites.h.
#pragma once

#include "ops/attention_sites.h"

namespace vitrine {

enum class LatentSite : std::uint8_t {
  q_latent_scale,
  q_latent_normalized,
  q_latent,
  rot_q,
  q,
  kv_latent_scale,
  kv_latent_normalized,
  kv_latent,
  rot_k,
  k,
  v,
};

/// Elements of the two latents, of the rotated and of the other part of a head, and of a value.
namespace dims {
inline constexpr Dim rank_q{"rank_q"};
inline constexpr Dim rank{"rank"};
inline constexpr Dim rot{"rot"};
inline constexpr Dim nope_rot{"nope+rot"};
inline constexpr Dim dv{"dv"};
}  // namespace dims

inline constexpr auto kLatentSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::mixer, kDefault, "attn.q_latent_norm.hook_scale", {T, one}, "the divisor of the latent of queries"},
      {SitePlace::mixer, kDefault, "attn.q_latent_norm.hook_normalized", {T, rank_q}, "normalized, before the weight"},
      {SitePlace::mixer, kDefault, "attn.hook_q_latent", {T, rank_q}, "the latent of queries, after its norm"},
      {SitePlace::mixer, kDefault, "attn.hook_rot_q", {T, H, rot}, "the rotated part of the queries, after RoPE"},
      {SitePlace::mixer, kDefault, "attn.hook_q", {T, H, nope_rot}, "queries of latent attention, after RoPE"},
      {SitePlace::mixer,
       kDefault,
       "attn.kv_latent_norm.hook_scale",
       {T, one},
       "the divisor of the latent of keys and values"},
      {SitePlace::mixer, kDefault, "attn.kv_latent_norm.hook_normalized", {T, rank}, "normalized, before the weight"},
      {SitePlace::mixer,
       kDefault,
       "attn.hook_kv_latent",
       {T, rank},
       "the latent of keys and values, after its norm: what the cache keeps"},
      {SitePlace::mixer,
       kDefault,
       "attn.hook_rot_k",
       {T, one, rot},
       "the rotated key of all heads, after RoPE, which the cache keeps, too"},
      {SitePlace::mixer,
       kOnDemand,
       "attn.hook_k",
       {T, H, nope_rot},
       "keys by head, which latent attention does not compute: they are derived from hook_kv_latent and hook_rot_k"},
      {SitePlace::mixer, kOnDemand, "attn.hook_v", {T, H, dv}, "values by head, derived from hook_kv_latent"},
  });
}();
inline constexpr SiteTable kLatentSiteTable{"latent attention", kLatentSites};
constexpr const SiteTable& sites_of(LatentSite) { return kLatentSiteTable; }
inline constexpr NormSites kQLatentNorm{LatentSite::q_latent_scale, LatentSite::q_latent_normalized,
                                        LatentSite::q_latent};
inline constexpr NormSites kKvLatentNorm{LatentSite::kv_latent_scale, LatentSite::kv_latent_normalized,
                                         LatentSite::kv_latent};
static_assert(kLatentSites.size() == static_cast<std::size_t>(LatentSite::v) + 1);

}  // namespace vitrine
