// The curves of one or several runs as one drawing: loss and validation loss, learning rate, gradient norm, over steps.
#pragma once

#include <span>
#include <string>

#include "metrics/metrics.h"

namespace vitrine {

/// An SVG file that follows a reader's light or dark setting. A run has one color in all panels and its name in the
/// legend; validation losses are dashed, with a dot for each. A panel for which no run has values is left out. Throws
/// BadInput where all are.
std::string plot_svg(std::span<const MetricCurves> runs);

}  // namespace vitrine
