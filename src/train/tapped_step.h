// Taps of a training step, as the config has them: recorded sites with their gradients, and writes.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "checkpoint/safetensors.h"
#include "inspect/recorder.h"
#include "model/config.h"
#include "train/train_config.h"

namespace vitrine {

/// One step's taps. Writes the values of the first micro-batch to `path` as they come, one tensor `<site>` each, and
/// their gradients as `<site>_grad`; without a path to no file.
class TappedStep {
 public:
  /// `looks`: values are recorded, too, not only written into. `n_segments`: of the first micro-batch.
  TappedStep(const LogOptions& options, const ModelConfig& model, bool looks, const std::string& path,
             std::int64_t n_segments);

  /// The first micro-batch is recorded; writes apply in all of them.
  Taps* of_part(std::int64_t part) { return part == 0 ? &*recorder_ : &*writes_; }
  /// Completes the file. Throws BadInput where a glob or a write met no site.
  void commit();

 private:
  bool looks_;
  std::optional<SafetensorsWriter> writer_;
  std::optional<Recorder> recorder_, writes_;
  std::set<std::string> written_;
};

}  // namespace vitrine
