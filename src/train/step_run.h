// A run whose steps change something other than a model: dictionaries of features, lenses. It has the folder, the
// metrics, the checkpoints and the signals of every run.
//
//   metrics.jsonl, events.out.tfevents…   a line every log.every steps
//   checkpoints/step-000100/              what StepLearner::write() writes, and trainer_state
//   last                                  a link to the last of them
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "metrics/metrics.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace vitrine {

/// What learns. A step is a pure function of its number and of the state, which arrays() and more() are.
class StepLearner {
 public:
  struct Step {
    double loss = 0;                ///< For the display of progress, and the result.
    std::vector<Metric> metrics{};  ///< Of a line. Progress shows `lr` and `grad_norm`, or the first that end so.
    std::int64_t n_rows = 0;        ///< Tokens, from which the speed is computed.
    std::string skipped{};          ///< Why nothing has changed; "" if it has.
  };

  virtual ~StepLearner() = default;
  virtual std::int64_t n_steps() const = 0;  ///< Of the whole run.
  /// The first messages of a run.
  virtual std::vector<std::string> plan() const = 0;
  /// Called before the first step of a new run.
  virtual void begin() {}
  /// Step number `number`, from 0. Throws Interrupted, and then has changed nothing.
  virtual Step step(std::int64_t number) = 0;
  /// All that a checkpoint has in addition to the files of write().
  virtual std::vector<OptimizerArray> arrays() = 0;
  virtual RunWords words() const = 0;
  virtual Json more() = 0;  ///< The numbers of the state.
  /// Sets them. Throws Json::exception if they are not those of such a run.
  virtual void set_more(const Json& more) = 0;
  /// Writes the files of a checkpoint into a folder, whose name ends with a slash.
  virtual void write(const std::string& folder) = 0;

 protected:
  StepLearner() = default;
};

class StepRun {
 public:
  /// Locks the folder of the run, if it exists, and looks for the step to resume from. Throws as RunFolder does. The
  /// run borrows its arguments.
  StepRun(const TrainConfig& config, const TrainRun& run);

  /// Runs all steps of the learner, or those that remain. Before it throws, it saves the last complete step. Throws
  /// BadInput after 50 steps in a row that changed nothing, and what a step throws.
  TrainResult run(StepLearner& learner);

 private:
  void tell(const std::string& line) const {
    if (run_.tell) run_.tell(line);
  }
  void check_interrupt() const {
    if (run_.interrupt != nullptr && run_.interrupt->load()) throw Interrupted();
  }
  bool has_enough() const { return run_.enough != nullptr && run_.enough->load(); }
  bool is_due(std::int64_t every) const { return every > 0 && step_ % every == 0; }

  void resume();
  void one_step();
  void finish_step();
  void save();
  void save_last_step() {
    if (step_ > 0 && saved_ != step_) save();
  }

  const TrainConfig& c_;
  const TrainRun& run_;
  RunFolder folder_;
  std::optional<std::int64_t> resumed_;
  StepLearner* learner_ = nullptr;
  std::optional<MetricsLog> metrics_;

  std::int64_t step_ = 0;    // steps done
  std::int64_t saved_ = -1;  // the last one that has a checkpoint, or whose checkpoint could not be written
  double loss_ = 0;
  std::int64_t skipped_ = 0;        // steps in a row that changed nothing
  std::vector<Metric> unfinished_;  // of the last step, until they are written
  std::int64_t line_rows_ = 0;      // since the last line of metrics, and the time they took
  double line_seconds_ = 0;
};

}  // namespace vitrine
