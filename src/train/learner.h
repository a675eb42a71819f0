// One step of training: the gradients of all micro-batches, then the update.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "model/model.h"
#include "train/gradient_sum.h"
#include "train/optimizer.h"
#include "train/train_config.h"
#include "train/trainable.h"

namespace vitrine {

/// Computes training steps; keeps its memory from step to step.
///
///   Learner::Step step = learner.learn(batch, number);
///   learner.update(step, lr);
class Learner {
 public:
  /// The learner borrows its arguments, which must outlive it.
  Learner(const Trainable& trainable, Optimizer& optimizer, const StepOptions& options, ThreadPool& pool,
          const Kernels& kernels, const std::atomic<bool>* interrupt);

  /// The taps of each micro-batch, by its number; may be null.
  using TapsOf = std::function<Taps*(std::int64_t part)>;

  struct Step {
    double loss = 0;           ///< Cross-entropy, nats per target; NaN if the step is skipped.
    double auxiliary = 0;      ///< The sum of z-loss and the router's losses.
    double grad_norm = 0;      ///< Before clipping; NaN if the step is skipped.
    std::int64_t targets = 0;  ///< Targets that count.
    std::string skipped;       ///< Why update() leaves the parameters as they are; "": it moves them.
  };

  /// The gradients of step number `step` on `batch`, computed in options.micro_batches equal parts. The loss is the
  /// mean over all targets that count. The step is skipped if no target counts or a value is not finite. Throws
  /// Interrupted.
  Step learn(const Batch& batch, std::int64_t step, const TapsOf& taps = {});
  /// Moves the parameters by these gradients, unless the step is skipped or their norm is not finite.
  void update(Step& step, double lr);
  /// Σ cross-entropy over the targets that count, without learning.
  double score(const Batch& batch);

 private:
  void learn_parts(const Batch& batch, std::int64_t step, const TapsOf& taps, Step& result);

  const Trainable& trainable_;
  Optimizer& optimizer_;
  const StepOptions& options_;
  ThreadPool& pool_;
  const Kernels& kernels_;
  const std::atomic<bool>* interrupt_;
  Gradients gradients_;
  GradientSum sum_{gradients_};
  Tape tape_;
  Arena arena_;
};

}  // namespace vitrine
