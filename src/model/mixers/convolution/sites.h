// The sites of a sublayer that is a convolution over the tokens.
#pragma once

#include "pass/sites.h"

namespace vitrine {

enum class ConvolutionSite : std::uint8_t {
  resid_mid,
  mid_scale,
  mid_normalized,
  mid_out,
  normalized_resid_mid,
  in,
  pre,
  out,
};

inline constexpr auto kConvolutionSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::ple_stream,
       kDefault,
       "hook_resid_mid_convolution",
       {T, d},
       "the residual stream between MLP and convolution; only in blocks with one"},
      {SitePlace::ple_stream, kDefault, "ln{m}.hook_scale", {T, one}, "the divisor of a norm of it"},
      {SitePlace::ple_stream, kDefault, "ln{m}.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::ple_stream, kDefault, "ln{m}.hook_out", {T, d}, "after the weight"},
      {SitePlace::ple_stream,
       kDefault,
       "hook_normalized_resid_mid_convolution",
       {T, d},
       "the stream between MLP and convolution where the sum is normalized"},
      {SitePlace::ple_input,
       kOnDemand,
       "hook_convolution_in",
       {T, d},
       "the input of the convolution: the stream before the block"},
      {SitePlace::ple, kDefault, "convolution.hook_pre", {T, d}, "the convolution before the activation"},
      {SitePlace::ple_output,
       kDefault,
       "hook_convolution_out",
       {T, d},
       "the convolution's output, added to the stream",
       94},
  });
}();
inline constexpr SiteTable kConvolutionSiteTable{"convolution", kConvolutionSites};
constexpr const SiteTable& sites_of(ConvolutionSite) { return kConvolutionSiteTable; }
static_assert(kConvolutionSites.size() == static_cast<std::size_t>(ConvolutionSite::out) + 1);

}  // namespace vitrine
