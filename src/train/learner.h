// One step of training: gradients of all micro-batches, then the update.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "model/model.h"
#include "train/optimizer.h"
#include "train/train_config.h"
#include "train/trainable.h"

namespace vitrine {

/// What a step computes with. Its memory is kept from step to step.
class Learner {
 public:
  /// All are borrowed, and must live as long.
  Learner(const Trainable& trainable, Optimizer& optimizer, const StepOptions& options, ThreadPool& pool,
          const Kernels& kernels, const std::atomic<bool>* interrupt);

  struct Step {
    double loss = 0;       ///< Cross-entropy, nats a target.
    double auxiliary = 0;  ///< What z-loss and the router's losses add.
    std::int64_t tokens = 0;
    StepReport report;
    std::string not_finite;  ///< What kept the parameters from moving: a value, or a gradient. "": they have moved.
  };

  /// Step number `step` on `batch`, in options.micro_batches equal parts. The loss is the sum over all targets that
  /// count over their number. A step whose values or gradients are not finite moves nothing; where Interrupted is
  /// thrown, nothing has moved.
  Step step(const Batch& batch, std::int64_t step, double lr, Taps* taps = nullptr);
  /// Σ cross-entropy over the targets that count, without learning.
  double score(const Batch& batch);

 private:
  void learn(const Batch& batch, std::int64_t step, Taps* taps, Step& result);

  const Trainable& trainable_;
  Optimizer& optimizer_;
  const StepOptions& options_;
  ThreadPool& pool_;
  const Kernels& kernels_;
  const std::atomic<bool>* interrupt_;
  Gradients gradients_;
  std::vector<const float*> grads_;  // in the order of trainable.params()
  Tape tape_;
  Arena arena_;
};

}  // namespace vitrine
