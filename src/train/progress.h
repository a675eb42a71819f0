// What a training run reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace vitrine {

/// After a step.
struct TrainProgress {
  std::int64_t step = 0, steps = 0;  ///< Steps done, and all steps of the run.
  double loss = 0;                   ///< Cross-entropy of the step, nats per token.
  double lr = 0;
  double grad_norm = 0;
  double tokens_per_s = 0;  ///< Over the steps since the last line of metrics.
  std::optional<double> val_loss;
};

/// At the end of a run.
struct TrainResult {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> val_loss;  ///< The last one.
  std::string checkpoint;          ///< The folder of the last checkpoint.
  std::string cluster{};           ///< Of several ranks: their traffic, times and memory, as JSON; else "".
};

}  // namespace vitrine
