// One step of training: the gradients of all micro-batches, then the update.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "model/model.h"
#include "train/distributed/batch_part.h"
#include "train/distributed/gradient_sum.h"
#include "train/distributed/shared_steps.h"
#include "train/optimizer.h"
#include "train/preference.h"
#include "train/text_loss.h"
#include "train/text_outputs.h"
#include "train/train_config.h"
#include "train/trainable.h"

namespace vitrine {

/// Computes training steps; reuses its memory from step to step.
///
///   Learner::Step step = learner.forward_backward(batch, number);
///   learner.update(step, lr);
class Learner {
 public:
  /// The learner borrows its arguments, which must outlive it.
  Learner(const Trainable& trainable, Optimizer& optimizer, const StepOptions& options, ThreadPool& pool,
          const Kernels& kernels, const std::atomic<bool>* interrupt, CallerPoll* poll = nullptr);

  /// From now on, the ranks share the micro-batches. All call the functions below together; scores run inside
  /// SharedSteps::score().
  void share(Ranks& ranks, Shard shard, const std::string& data);
  /// Of several ranks; null for one.
  SharedSteps* shared() { return shared_ ? &*shared_ : nullptr; }
  /// Calls work() at rank 0, which has all weights meanwhile.
  template <class Work>
  void at_first(const Work& work) {
    if (shared_) return shared_->at_first(work);
    work();
  }

  /// The loss is from now on that of pairs of answers; `references` are the scores of all pairs by their number, empty
  /// if the objective has none.
  void prefer(const PreferenceOptions& options, std::vector<PairScore> references);

  /// The loss is from now on that of texts. If it compares the texts of a batch with each other, and there are several
  /// micro-batches, a step first computes all outputs without gradients, and then the gradients of one micro-batch
  /// after another (GradCache, Gao et al. 2021): the loss does not depend on micro_batches, and the memory is that of
  /// one. The same is done for weights of words, whose logits are computed in groups of rows.
  void learn_texts(const TextObjective& objective, const TextResult& result);

  /// Returns the taps of micro-batch number `part`, or null.
  using TapsOf = std::function<Taps*(std::int64_t part)>;

  struct Step {
    double loss = 0;           ///< Nats per target, or the mean of the pairs' losses; NaN if the step is skipped.
    PairSums pairs;            ///< Of a batch of pairs.
    double auxiliary = 0;      ///< The sum of z-loss and the router's losses.
    double grad_norm = 0;      ///< Before clipping; NaN if the step is skipped.
    std::int64_t targets = 0;  ///< Targets that count.
    std::string skipped;       ///< Why update() does not change the parameters; "" if it does.
  };

  /// Computes the gradients of step number `step` on `batch`, in options.micro_batches equal parts. The loss is the
  /// mean over all targets that count. The step is skipped if no target counts or a value is not finite. Throws
  /// Interrupted, and PeerLost.
  Step forward_backward(const Batch& batch, std::int64_t step, const TapsOf& taps = {});
  /// What several ranks exchange about each micro-batch of one-piece losses.
  static constexpr std::int64_t kLossBytes = 4 * sizeof(double);
  /// Updates the parameters with these gradients, unless the step is skipped or their norm is not finite. Then moves
  /// the corrections of routers by options.router_bias_rate.
  void update(Step& step, double lr);
  /// Σ cross-entropy over the targets that count, in nats, without gradients. Throws NotFinite, Interrupted.
  double score(const Batch& batch, BlockEvents* events = nullptr);
  /// The losses of a batch of pairs, without gradients. Throws NotFinite, Interrupted.
  PairSums compare(const Batch& batch, BlockEvents* events = nullptr);
  /// The scores of a batch of pairs by the model as it is, or without its adapter.
  std::vector<PairScore> score_answers(const Batch& batch, bool with_adapter, BlockEvents* events = nullptr);

 private:
  ExecutionContext machine() {
    return {.pool = pool_,
            .kernels = kernels_,
            .arena = arena_,
            .interrupt = interrupt_,
            .compute = Compute::f32,
            .poll = poll_};
  }

  /// The losses of a micro-batch, each already divided by what it is a mean of.
  struct Losses {
    double cross_entropy = 0, z_squares = 0, balance = 0, router_z = 0;
  };
  static_assert(sizeof(Losses) == kLossBytes);
  /// The losses of a step, by micro-batch and by pair.
  struct StepLosses {
    std::vector<Losses> parts;
    std::vector<PairLoss> pairs;
    std::vector<std::int64_t> choices;    // by micro-batch: those of each expert of each correction
    std::optional<TextLossResult> texts;  // of the whole batch, if it is known before the gradients
    std::vector<double> outputs;          // which it is of
  };

  /// What is learned from texts.
  struct Texts {
    TextObjective objective;
    TextResult result;
    std::int64_t width;  // elements of an output
  };
  const TextSteps* text_steps() const;
  void deliver_outputs(Pass& pass, std::function<void(std::span<const double> outputs)> receive) const;
  std::int64_t output_begin(const Batch& batch, std::int64_t piece) const;
  Pass pass_of(const BatchPart& part, std::int64_t step, std::int64_t number, BlockEvents* events);
  std::vector<double> outputs_of(const BatchPart& part, std::int64_t step, std::int64_t number, BlockEvents* events);
  std::vector<double> all_outputs(const Batch& batch, std::int64_t step);
  std::string compare_texts(const Batch& batch, std::int64_t step, StepLosses& losses);
  void backward_texts(const Batch& batch, const BatchPart& part, std::int64_t number, Pass& pass, StepLosses& losses);
  double score_texts(const Batch& batch, BlockEvents* events);

  PairLoss loss_of_pair(const Batch& batch, std::size_t pair, const PairScore& score) const;
  void backward_part(const Batch& batch, std::int64_t step, std::int64_t number, const TapsOf& taps, double n_targets,
                     StepLosses& losses, BlockEvents* events);
  std::string backward_parts(const Batch& batch, std::int64_t step, const TapsOf& taps, double n_targets,
                             StepLosses& losses);
  void count_choices(const LossResult& found, std::int64_t number, StepLosses& losses) const;
  void add_choices(const StepLosses& losses);
  void move_corrections() const;
  void add_losses(const StepLosses& losses, Step& result) const;

  const Trainable& trainable_;
  Optimizer& optimizer_;
  const StepOptions& options_;
  ThreadPool& pool_;
  const Kernels& kernels_;
  const std::atomic<bool>* interrupt_;
  CallerPoll* poll_;
  Gradients gradients_;
  GradientSum sum_{gradients_};
  std::optional<SharedSteps> shared_;
  Tape tape_;
  std::optional<PreferenceOptions> preference_;
  std::optional<Texts> texts_;
  std::vector<PairScore> references_;    // by the number of the pair
  std::vector<TrainParam> corrections_;  // that training moves
  std::vector<std::int64_t> choices_;    // of the step: those of each expert of each correction
  std::optional<SiteId> begin_;          // the first block in which anything learns
  Arena arena_;
};

}  // namespace vitrine
