// What a run starts from: random parameters, or those of a checkpoint.
#pragma once

#include <string>

#include "train/train_config.h"
#include "train/trainable.h"

namespace vitrine {

/// Parameters, and what a run's checkpoints hold beside them.
struct Start {
  Trainable trainable;
  ModelFiles files;
};

/// From `checkpoint`, or where it is "" from the config's own words. Throws as load_checkpoint does, and Unsupported
/// for a checkpoint that is no Hugging Face folder.
Start start_from(const TrainConfig& config, const std::string& checkpoint, ThreadPool& pool, const Kernels& k);

}  // namespace vitrine
