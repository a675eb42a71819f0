// One vector of each text: the last row of the value of a site, or the mean of its rows.
#pragma once

#include <cstdint>
#include <vector>

#include "generate/read_texts.h"

namespace vitrine {

/// `[n, width]` of n texts. The site's value has a row of `width` elements for each token. The mean is computed in
/// float64. No vector depends on the other texts. Throws as read_texts(), NotFinite for a text whose vector is not
/// finite, and Unsupported for a site that is not in the stack that reads texts: one of a decoder after an encoder.
std::vector<float> pooled_site(const GenerateContext& context, const SiteId& site, std::int64_t width, bool is_mean,
                               const TextIds& texts);

}  // namespace vitrine
