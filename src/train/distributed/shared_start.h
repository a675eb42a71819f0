// The start of a run on several ranks. Rank 0 alone reads checkpoints and the run's folder, and sends (broadcast) what
// the others need; these have the program, the config and the data, which must be the same.
#pragma once

#include <string>

#include "ranks/ranks.h"
#include "train/optimizer.h"
#include "train/start.h"

namespace vitrine {

/// Throws on all ranks unless they have the same program (`build` is its version) and config, and a micro-batch each.
void check_same_run(Ranks& ranks, const TrainConfig& config, const std::string& config_file, const std::string& build);
/// Throws on all ranks unless they have the same files of data. Of a file of more than 256 MB, only some pages are
/// compared; the batches of every step are compared, too (Learner::share).
void check_same_data(Ranks& ranks, const TrainConfig& config);

/// As start_from(). With a checkpoint, the values of the other ranks are zero until share_state().
Start shared_start(Ranks& ranks, Shard shard, const TrainConfig& config, const std::string& checkpoint,
                   ThreadPool& pool, const Kernels& kernels);

}  // namespace vitrine
