// The sites of a mixer that is a gated short convolution.
#pragma once

#include "pass/sites.h"

namespace vitrine {

enum class ConvSite : std::uint8_t {
  mixer_in,
  in,
  proj_out,
  conv_in,
  conv_out,
  out,
  mixer_out,
};

/// Channels of a convolution, and elements of a projection before it.
namespace dims {
inline constexpr Dim C{"C"};
inline constexpr Dim m{"m"};
}  // namespace dims

inline constexpr auto kConvSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::mixer_input, kOnDemand, "hook_mixer_in", {T, d}, "a copy of the stream, the input of the mixer"},
      {SitePlace::mixer, kDefault, "conv.hook_in", {T, d}, "the input of a gated convolution, after the norm"},
      {SitePlace::mixer, kDefault, "conv.in.hook_out", {T, m}, "the two gates and the value, next to each other"},
      {SitePlace::mixer, kDefault, "conv.conv.hook_in", {T, C}, "the gated value: the window of later tokens"},
      {SitePlace::mixer, kDefault, "conv.conv.hook_out", {T, C}, "its convolution"},
      {SitePlace::mixer, kDefault, "conv.hook_out", {T, d}, "the output of a gated convolution"},
      {SitePlace::mixer_output, kDefault, "hook_mixer_out", {T, d}, "as it is added to the stream", 93},
  });
}();
inline constexpr SiteTable kConvSiteTable{"conv", kConvSites};
constexpr const SiteTable& sites_of(ConvSite) { return kConvSiteTable; }
static_assert(kConvSites.size() == static_cast<std::size_t>(ConvSite::mixer_out) + 1);

}  // namespace vitrine
