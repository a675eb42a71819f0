// What a run starts from.
#pragma once

#include <string>

#include "parallel/thread_pool.h"
#include "train/train_config.h"
#include "train/trainable.h"

namespace vitrine {

/// The start of a run: parameters, and the other files of its checkpoints.
struct Start {
  Trainable trainable;
  ModelFiles files;
};

/// The start from `checkpoint`, or, if it is "", from the config's model. Throws as load_checkpoint does, and
/// Unsupported for a checkpoint that is not a Hugging Face folder. `filled` follows parameters that are drawn.
Start start_from(const TrainConfig& config, const std::string& checkpoint, ThreadPool& pool, const Kernels& kernels,
                 const Filled& filled = {});

}  // namespace vitrine
