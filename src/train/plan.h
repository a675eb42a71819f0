// What a run reports before its first step.
#pragma once

#include <string>
#include <vector>

#include "ranks/ranks.h"
#include "train/conversation_data.h"
#include "train/optimizer.h"
#include "train/start.h"

namespace vitrine {

/// Lines about the model, the data, the ranks and the memory of each. `talk` is null for shards.
std::vector<std::string> plan_of(const TrainConfig& config, const Start& start, const TrainingData& data,
                                 const ConversationData* talk, const Ranks& ranks, Shard shard, ThreadPool& pool);

}  // namespace vitrine
