// A run that trains a lens in place of a model: [lens].
#pragma once

#include "train/trainer.h"

namespace vitrine {

/// Trains as `config`, which has [lens], specifies, and writes to its folder what StepRun writes. A checkpoint has the
/// lens as lens.safetensors. Throws as train().
TrainResult train_lens(const TrainConfig& config, const TrainRun& run);

}  // namespace vitrine
