// Taps of a training step, as configured: recorded sites with their gradients, and writes.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "checkpoint/safetensors.h"
#include "inspect/recorder.h"
#include "model/config.h"
#include "train/train_config.h"

namespace vitrine {

/// One step's taps. Writes the values of the first micro-batch to `path` (if not empty) as they are computed, named
/// `<site>`, or `<site>.<segment>` after segment 0, and their gradients with the suffix `_grad`.
class TappedStep {
 public:
  /// `looks`: whether values are recorded; writes always apply. `n_segments`: of the first micro-batch.
  TappedStep(const LogOptions& options, const ModelConfig& model, bool looks, const std::string& path,
             std::int64_t n_segments);

  /// The first micro-batch is recorded; writes apply in all of them.
  Taps* of_part(std::int64_t part) { return part == 0 ? &*recorder_ : &*writes_; }
  /// Completes the file. Throws BadInput if a glob (if `looks`) or a write matched no site.
  void commit();

 private:
  bool looks_;
  std::optional<SafetensorsWriter> writer_;
  std::optional<Recorder> recorder_, writes_;
  std::set<std::string> written_;
};

}  // namespace vitrine
