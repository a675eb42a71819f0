// Runs a model that a fuzz target has read.
#pragma once

#include "checkpoint/load.h"

namespace vitrine::fuzz {

/// Runs some tokens at once on the kernels of this machine, and one by one with a cache on the scalar kernels; a
/// bidirectional model runs them at once on both. Both must give the same bits, or both must reject the model. In that
/// case it throws, as Model::forward does.
void exercise_model(const Checkpoint& checkpoint);

}  // namespace vitrine::fuzz
