// The start of a run: random parameters, or those of a checkpoint.
#pragma once

#include <string>

#include "train/train_config.h"
#include "train/trainable.h"

namespace vitrine {

/// Parameters, and the files that the run's checkpoints contain besides them.
struct Start {
  Trainable trainable;
  ModelFiles files;
};

/// From `checkpoint`, or if it is "" from the config's model. Throws as load_checkpoint does, and Unsupported for a
/// checkpoint that is no Hugging Face folder.
Start start_from(const TrainConfig& config, const std::string& checkpoint, ThreadPool& pool, const Kernels& k);

}  // namespace vitrine
