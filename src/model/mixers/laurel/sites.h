// The sites of a LAuReL branch.
#pragma once

#include "pass/sites.h"

namespace vitrine {

enum class LaurelSite : std::uint8_t {
  laurel_pre,
  laurel_scale,
  laurel_normalized,
  laurel_norm_out,
  laurel_out,
};

/// The rank of the map.
namespace dims {
inline constexpr Dim laurel_rank{"r"};
}  // namespace dims

inline constexpr auto kLaurelSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::laurel, kDefault, "laurel.hook_pre", {T, laurel_rank}, "between the two matrices of LAuReL's map"},
      {SitePlace::laurel, kDefault, "laurel.ln.hook_scale", {T, one}, "the divisor of the norm of the map's result"},
      {SitePlace::laurel, kDefault, "laurel.ln.hook_normalized", {T, d}, "normalized, before the weight"},
      {SitePlace::laurel, kDefault, "laurel.ln.hook_out", {T, d}, "after the weight"},
      {SitePlace::laurel_output,
       kDefault,
       "laurel.hook_out",
       {T, d},
       "its input and the normed map of it: the output of LAuReL, added to the stream",
       92},
  });
}();
inline constexpr SiteTable kLaurelSiteTable{"laurel", kLaurelSites};
constexpr const SiteTable& sites_of(LaurelSite) { return kLaurelSiteTable; }
static_assert(kLaurelSites.size() == static_cast<std::size_t>(LaurelSite::laurel_out) + 1);

}  // namespace vitrine
