// What a run reports before its first step.
#pragma once

#include <string>
#include <vector>

#include "ranks/ranks.h"
#include "train/conversation_data.h"
#include "train/optimizer.h"
#include "train/start.h"
#include "train/text_data.h"

namespace vitrine {

/// What the data is, if it is no shards.
struct DataPlan {
  const ConversationData* talk = nullptr;
  const TextData* texts = nullptr;
};

/// Lines about the model, the data, the ranks and the memory of each.
std::vector<std::string> plan_of(const TrainConfig& config, const Start& start, const TrainingData& data,
                                 const DataPlan& plan, const Ranks& ranks, Shard shard, ThreadPool& pool);

}  // namespace vitrine
