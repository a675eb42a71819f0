// vitrine eval --task: how well a model that reads whole texts classifies, tags, compares, finds and orders them.
#pragma once

#include <optional>
#include <string>

#include "cli/options.h"

namespace vitrine::cli {

struct TaskKeys {
  std::string task;   ///< "": no task.
  std::string qrels;  ///< Of retrieval; "": test.tsv, or the only file.
  std::optional<std::int64_t> dimensions;
  std::string precision = "float32";
  std::int64_t batch = 32;
};

/// Adds --task, --qrels, --dimensions, --precision and --batch.
void add_task_keys(Command& command, TaskKeys& keys);

/// Prints the scores of the model at `model` on `path`, a file of examples or, for retrieval, a folder; next to those
/// of the model at `against`, if it is not "", with intervals of their differences.
void eval_task(const Options& options, const TaskKeys& keys, const std::string& model, const std::string& path,
               const std::string& against);

}  // namespace vitrine::cli
