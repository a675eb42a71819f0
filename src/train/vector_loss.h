// The losses of vectors, for text_loss().
#pragma once

#include "train/text_loss.h"

namespace vitrine {

/// text_loss() for LearnedTask::embed: `outputs` are vectors.
TextLossResult vector_loss(const TextObjective& objective, std::span<const Batch::Example> examples,
                           std::span<const double> outputs, std::int64_t width, double count);

}  // namespace vitrine
