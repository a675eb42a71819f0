// All sites: those of the stream, and those of every kind of sublayer and layer.
#pragma once

#include <span>

#include "pass/sites.h"

namespace vitrine {

/// All sites in the order of a forward.
std::span<const Site> all_sites();
/// The index of a site in all_sites().
std::size_t number_of(Site site);
/// Whether cross-attention, which has the sites of attention under other names, has this one.
bool in_cross_attention(Site site);

}  // namespace vitrine
