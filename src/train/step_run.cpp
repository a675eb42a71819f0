#include "train/step_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/kernels.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxStepsWithoutChange = 50;  // consecutive steps, after which the run ends

/// The first metric of this name, which may come after that of a part of the run; 0 if there is none.
double first_value(std::span<const Metric> metrics, const std::string& name) {
  const auto is_it = [&](const Metric& m) { return m.name == name || m.name.ends_with("/" + name); };
  const auto it = std::ranges::find_if(metrics, is_it);
  return it != metrics.end() ? it->value : 0;
}

}  // namespace

StepRun::StepRun(const TrainConfig& config, const TrainRun& run) : c_(config), run_(run), folder_(config.out) {
  resumed_ = folder_.step_to_resume(run.resume);
  if (run_.resume && !resumed_) tell("the run has no checkpoint yet: it starts from the beginning");
}

TrainResult StepRun::run(StepLearner& learner) {
  learner_ = &learner;
  if (resumed_) resume();
  for (const std::string& line : learner.plan()) tell(line);
  if (run_.loaded) run_.loaded();
  folder_.prepare();
  metrics_.emplace(c_.out,
                   !resumed_             ? -1
                   : unfinished_.empty() ? step_
                                         : step_ - 1,
                   [this](std::int64_t, std::int64_t) { check_interrupt(); });
  try {
    if (!resumed_) learner.begin();
    if (!unfinished_.empty()) finish_step();
    while (step_ < learner.n_steps() && !has_enough()) one_step();
  } catch (const Interrupted&) {
    save_last_step();
    throw;
  } catch (...) {
    try {
      save_last_step();
    } catch (const std::exception& e) {
      tell(fmt::format("step {} could not be saved: {}", step_, e.what()));
    }
    throw;
  }
  save_last_step();
  return {step_, loss_, {}, checkpoint_path(c_.out, step_)};
}

void StepRun::one_step() {
  check_interrupt();
  const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  const StepLearner::Step step = learner_->step(step_);
  // From here on nothing interrupts, so that what is saved is that of a whole step.
  line_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  line_rows_ += step.n_rows;
  ++step_;
  loss_ = step.loss;
  unfinished_ = step.metrics;
  if (!step.skipped.empty()) {
    unfinished_.push_back({"skipped", 1});
    tell(fmt::format("step {} changed nothing: {}", step_, step.skipped));
  }
  finish_step();
  skipped_ = step.skipped.empty() ? 0 : skipped_ + 1;
  if (skipped_ < kMaxStepsWithoutChange) return;
  throw BadInput(c_.out, "{} steps in a row changed nothing, the last because {}; a lower learning rate may help",
                 skipped_, step.skipped);
}

/// Metrics and checkpoints after a step. If this throws, a resumed run starts here.
void StepRun::finish_step() {
  std::vector<Metric> line = unfinished_;
  const double speed = line_seconds_ > 0 ? static_cast<double>(line_rows_) / line_seconds_ : 0;
  if (speed > 0) line.push_back({"tokens_per_s", speed});
  if (run_.show) {
    run_.show({step_, learner_->n_steps(), loss_, first_value(line, "lr"), first_value(line, "grad_norm"), speed, {}});
  }
  if (is_due(c_.log.every) || step_ == learner_->n_steps() || first_value(line, "skipped") > 0) {
    metrics_->write(step_, line);
    line_rows_ = 0;
    line_seconds_ = 0;
  }
  unfinished_.clear();
  if (is_due(c_.log.save_every)) save();
}

void StepRun::save() {
  saved_ = step_;
  TrainerState state;
  state.step = step_;
  state.optimizer_steps = step_;
  state.loss = loss_;
  state.isa = name_of(default_kernels().isa);
  state.build = run_.build;
  state.words = learner_->words();
  for (const Metric& metric : unfinished_) state.unfinished[metric.name] = metric.value;
  state.more = learner_->more();
  folder_.save(state, learner_->arrays(), c_.log.keep_last,
               [this](const std::string& folder) { learner_->write(folder); });
}

void StepRun::resume() {
  const TrainerState state = folder_.read_state(*resumed_);
  check_words(state.words, learner_->words(), c_.out, [this](const std::string& line) { tell(line); });
  const std::vector<OptimizerArray> all = learner_->arrays();
  const ReadArray read = folder_.open_arrays(*resumed_, all);
  for (const OptimizerArray& array : all) read(array);
  try {
    learner_->set_more(state.more);
  } catch (const Json::exception& e) {
    throw BadCheckpoint(folder_.checkpoint(*resumed_) + "/trainer_state.json",
                        "expected the state of a run like this one: {}", e.what());
  }
  step_ = saved_ = state.step;
  loss_ = state.loss;
  if (!state.unfinished.is_null()) unfinished_ = metrics_of(state.unfinished, folder_.checkpoint(step_));
  tell(fmt::format("resuming after step {}: {}", step_, folder_.checkpoint(step_)));
  const std::string_view isa = name_of(default_kernels().isa);
  if (state.isa != isa || state.build != run_.build) {
    tell(fmt::format("the checkpoint was written by {} with {} instructions, and this is {} with {}: bits may differ",
                     state.build, state.isa, run_.build, isa));
  }
}

}  // namespace vitrine
