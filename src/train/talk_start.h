// Conversations and pairs at the start of a run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ranks/ranks.h"
#include "train/conversation_data.h"
#include "train/learner.h"
#include "train/run_folder.h"

namespace vitrine {

/// Reads conversations or pairs, before the model and before anything is written; null for shards. Sets the steps of
/// the config's epochs, and the time that templates read: that of the start, which a resumed run takes from its
/// checkpoint. Only rank 0 has a folder.
std::shared_ptr<const ConversationData> open_talk(Ranks& ranks, TrainConfig& config, const RunFolder* folder,
                                                  std::optional<std::int64_t> resumed);

/// Lets the learner compare pairs. Rank 0 computes the scores of the reference once, and keeps them for a resumed run.
void prefer_pairs(Ranks& ranks, const TrainConfig& config, const ConversationData& talk, Learner& learner, bool resumes,
                  const std::function<void(const std::string&)>& tell);

}  // namespace vitrine
