#include "train/new_head.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"

namespace vitrine {
namespace {

const char* problem_type(TaskHead::Problem problem) {
  switch (problem) {
    case TaskHead::Problem::one_label:
      return "single_label_classification";
    case TaskHead::Problem::several_labels:
      return "multi_label_classification";
    case TaskHead::Problem::regression:
      return "regression";
  }
  throw InternalError("head", "unknown problem");
}

}  // namespace

Json config_with_head(Json config, const std::string& where, LearnedTask task, const std::vector<std::string>& labels,
                      std::optional<TaskHead::Problem> problem) {
  const Family& family = family_named(family_of(config, where).model_type);
  const TaskHead::Task wanted = task == LearnedTask::tag ? TaskHead::Task::tag : TaskHead::Task::classify;
  const auto found = std::find_if(family.tasks.begin(), family.tasks.end(),
                                  [&](const TaskClass& known) { return known.head.task == wanted; });
  if (found == family.tasks.end()) {
    throw Unsupported(where, "models of the type {} have no class with such a head", family.model_type);
  }
  const std::string_view stem = family.architecture.substr(0, family.architecture.rfind("For"));
  config["architectures"] = {std::string(stem) + std::string(found->ending)};
  Json names = Json::object(), numbers = Json::object();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    names[std::to_string(i)] = labels[i];
    numbers[labels[i]] = i;
  }
  config["id2label"] = names;
  config["label2id"] = numbers;
  for (const char* key : {"num_labels", "_num_labels", "problem_type"}) config.erase(key);
  if (problem && wanted == TaskHead::Task::classify) config["problem_type"] = problem_type(*problem);
  return config;
}

}  // namespace vitrine
