// The values of a dictionary at its site (pass/dictionary.h): `SITE.hook_sae_acts_post`, or
// `SITE.NAME.hook_sae_acts_post` if the dictionary has a name. SITE is its output site. Names are those of SAELens.
// A probe has one value, `probe.NAME`.
#pragma once

#include <vector>

#include "pass/dictionary.h"
#include "pass/sites.h"

namespace vitrine {
namespace dims {
inline constexpr Dim d_in{"d_in"}, d_sae{"d_sae"}, d_out{"d_out"};
inline constexpr Dim as_site{"…"};  // the other dimensions of the site
}  // namespace dims

/// By DictionarySite. Their place is that of the site.
inline constexpr auto kDictionarySites = [] {
  using namespace dims;
  constexpr SitePlace at = SitePlace::block_output;
  return std::to_array<SiteInfo>({
      {at, kDefault, "hook_sae_input", {T, d_in}, "the value that the dictionary reads, before normalization"},
      {at, kOnDemand, "hook_sae_acts_pre", {T, d_sae}, "the encoder's output, before the activation"},
      {at, kOnDemand, "hook_sae_acts_post", {T, d_sae}, "the activations of the features"},
      {at, kDefault, "hook_sae_recons", {T, d_out}, "the decoder's output, in the dictionary's normalization"},
      {at, kDefault, "hook_sae_error", {T, as_site}, "SITE minus its reconstruction from unchanged activations"},
      {at, kDefault, "hook_sae_output", {T, as_site}, "the value of SITE that the forward continues with"},
  });
}();
static_assert(kDictionarySites.size() == static_cast<std::size_t>(DictionarySite::output) + 1);

/// A probe is a dictionary of which there is the encoder alone: p are the logits of labels, and the site keeps its
/// value.
inline bool is_probe(const Dictionary& dictionary) { return !dictionary.decoder.present(); }
/// Its only value.
inline constexpr auto kProbeValue = static_cast<DictionarySite>(kDictionarySites.size());
inline constexpr SiteInfo kProbeSite{SitePlace::block_output,
                                     kDefault,
                                     "probe",
                                     {dims::T, dims::L},
                                     "the logits of the labels; of two, that of the second"};

/// The sites of a dictionary, or of a probe.
inline std::vector<SiteId> sites_of(const Dictionary& dictionary) {
  if (is_probe(dictionary)) return {dictionary.at(kProbeValue)};
  std::vector<SiteId> sites;
  for (std::size_t i = 0; i < kDictionarySites.size(); ++i) {
    sites.push_back(dictionary.at(static_cast<DictionarySite>(i)));
  }
  return sites;
}

}  // namespace vitrine
