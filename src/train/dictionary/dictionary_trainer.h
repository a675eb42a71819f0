// A run that trains dictionaries of features in place of a model: [sae].
#pragma once

#include "train/trainer.h"

namespace vitrine {

/// Trains as `config`, which has [sae], specifies, and writes to its folder:
///
///   metrics.jsonl, events.out.tfevents…   a line every log.every steps; with [[sae]], names begin with SITE/
///   checkpoints/step-000100/              a folder of SAELens, or with [[sae]] one for each SITE, and trainer_state
///   last                                  a link to the last of them
///
/// Throws as train().
TrainResult train_dictionaries(const TrainConfig& config, const TrainRun& run);

}  // namespace vitrine
