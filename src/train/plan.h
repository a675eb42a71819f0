// What a run is going to do, in words.
#pragma once

#include <functional>
#include <string>

#include "parallel/thread_pool.h"
#include "train/conversation_data.h"
#include "train/start.h"
#include "train/train_config.h"

namespace vitrine {

/// Tells, one line at a time, how large the model, the data and the memory of a run are. `talk` is null unless the data
/// are conversations or pairs.
void tell_plan(const TrainConfig& config, const Start& start, const TrainingData& corpus, const ConversationData* talk,
               ThreadPool& pool, const std::function<void(const std::string&)>& tell);

}  // namespace vitrine
