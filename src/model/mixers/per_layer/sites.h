// The sites of a per-layer embedding.
#pragma once

#include "pass/sites.h"

namespace vitrine {

enum class PerLayerSite : std::uint8_t {
  ple_in,
  per_layer_input,
  ple_pre,
  ple_post,
  ple_proj,
  ple_out,
};

/// Elements of a layer's part of the per-layer embeddings.
namespace dims {
inline constexpr Dim p{"p"};
}  // namespace dims

inline constexpr auto kPerLayerSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::ple_input, kOnDemand, "hook_ple_in", {T, d}, "the input of the per-layer embedding's gate"},
      {SitePlace::ple,
       kDefault,
       "hook_per_layer_input",
       {T, p},
       "the layer's part of the per-layer embeddings and of the projected first stream"},
      {SitePlace::ple, kDefault, "ple.hook_pre", {T, p}, "the gate before the activation"},
      {SitePlace::ple, kDefault, "ple.hook_post", {T, p}, "the gate after the activation, times the input"},
      {SitePlace::ple, kDefault, "ple.hook_out", {T, d}, "after the projection, before the post-norm"},
      {SitePlace::ple_output,
       kDefault,
       "hook_ple_out",
       {T, d},
       "the per-layer embedding's output, added to the stream",
       91},
  });
}();
inline constexpr SiteTable kPerLayerSiteTable{"per_layer", kPerLayerSites};
constexpr const SiteTable& sites_of(PerLayerSite) { return kPerLayerSiteTable; }
static_assert(kPerLayerSites.size() == static_cast<std::size_t>(PerLayerSite::ple_out) + 1);

}  // namespace vitrine
