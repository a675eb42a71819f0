// A head for classes, tags or scores on a model that has none, or another.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/family.h"
#include "model/task_head.h"
#include "train/text_loss.h"

namespace vitrine {

/// The config.json of a model of the same layers with a head for the task. Throws Unsupported if the model's family has
/// no such class.
Json with_new_head(Json config, const std::string& where, LearnedTask task, const std::vector<std::string>& labels,
                   std::optional<TaskHead::Problem> problem);

/// The parameter of a model without the task's head that has the weights of a parameter of the head, such as BERT's
/// pooler: its name, or `name` for a parameter of the layers; "" for one that is new.
std::string source_of_head(const Family& family, const std::string& name);

}  // namespace vitrine
