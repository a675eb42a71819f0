// The config of a head for classes, tags or scores on a model that has none, or another.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/task_head.h"
#include "train/text_loss.h"

namespace vitrine {

/// The config.json of a model of the same layers with a head for the task. Throws Unsupported if the model's family has
/// no such class.
Json config_with_head(Json config, const std::string& where, LearnedTask task, const std::vector<std::string>& labels,
                      std::optional<TaskHead::Problem> problem);

}  // namespace vitrine
