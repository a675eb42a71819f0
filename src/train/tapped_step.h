// Looking into a training step: sites and their gradients, and writes, as the config asks.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "checkpoint/safetensors.h"
#include "inspect/recorder.h"
#include "model/config.h"
#include "train/train_config.h"

namespace vitrine {

/// One step's taps. Values go to `path` as they come, one tensor `<site>` each, gradients as `<site>_grad`; of several
/// micro-batches those of the first. No path: nothing is written down.
class TappedStep {
 public:
  /// `looks`: values are recorded, too, not only written into. `n_segments`: of the first micro-batch.
  TappedStep(const LogOptions& options, const ModelConfig& model, bool looks, const std::string& path,
             std::int64_t n_segments);

  Recorder& recorder() { return *recorder_; }
  /// Completes the file. Throws BadInput where a glob or a write met no site.
  void commit();

 private:
  bool looks_;
  std::optional<SafetensorsWriter> writer_;
  std::optional<Recorder> recorder_;
  std::set<std::string> written_;
};

}  // namespace vitrine
