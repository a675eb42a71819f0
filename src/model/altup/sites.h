// The sites of AltUp.
#pragma once

#include "pass/sites.h"

namespace vitrine {

enum class AltUpSite : std::uint8_t {
  predicted,
  corrected,
};

/// Streams.
namespace dims {
inline constexpr Dim streams{"n_streams"};
}  // namespace dims

inline constexpr auto kAltUpSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::prediction,
       kDefault,
       "altup.hook_predicted",
       {T, streams, d},
       "AltUp's prediction of all streams, before the block's sublayers; those read the active one"},
      {SitePlace::correction,
       kDefault,
       "altup.hook_corrected",
       {T, streams, d},
       "all streams, corrected by what the block's sublayers made of the active one"},
  });
}();
inline constexpr SiteTable kAltUpSiteTable{"altup", kAltUpSites};
constexpr const SiteTable& sites_of(AltUpSite) { return kAltUpSiteTable; }
static_assert(kAltUpSites.size() == static_cast<std::size_t>(AltUpSite::corrected) + 1);

}  // namespace vitrine
