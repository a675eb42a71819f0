// The sites of a moving average.
#pragma once

#include "pass/sites.h"

namespace vitrine {

enum class AverageSite : std::uint8_t {
  average_in,
  average_state,
  average_proj,
  average_out,
};

inline constexpr auto kAverageSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::mixer_input, kOnDemand, "hook_average_in", {T, d}, "the input of the average, before ln1"},
      {SitePlace::mixer, kDefault, "average.hook_state", {T, d}, "the sum after each token"},
      {SitePlace::mixer, kDefault, "average.hook_out", {T, d}, "after wo, before the post-norm"},
      {SitePlace::mixer_output, kDefault, "hook_average_out", {T, d}, "the output, added to the stream", 1000},
  });
}();
inline constexpr SiteTable kAverageSiteTable{"average", kAverageSites};
constexpr const SiteTable& sites_of(AverageSite) { return kAverageSiteTable; }

}  // namespace vitrine
