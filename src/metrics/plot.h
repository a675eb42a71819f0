// The curves of runs in one drawing: loss, validation loss, learning rate and gradient norm over steps.
#pragma once

#include <span>
#include <string>

#include "metrics/metrics.h"

namespace vitrine {

/// An SVG file that follows the reader's light or dark setting. A run has the same color in all panels, and the legend
/// lists its name; validation losses are dashed, with a dot for each if there are at most 100. Panels without values
/// are left out. Throws BadInput if no panel has values.
std::string plot_svg(std::span<const MetricCurves> runs);

}  // namespace vitrine
