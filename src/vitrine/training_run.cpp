// Training through the library's interface.
#include "base/version.h"
#include "train/local_paths.h"
#include "train/trainer.h"
#include "vitrine/opened_model.h"

namespace vitrine {

struct TrainingRun::State : TrainedModel {
  State(const TrainConfig& config, const TrainOptions& options)
      : threads(options.threads), caller(options.poll), poll(options.poll), trainer(config, run_of(options)) {}

  DType dtype() const override { return trainer.start().trainable.dtype(); }
  void save(const std::string& folder) override { trainer.save(folder); }

  TrainRun run_of(const TrainOptions& options) {
    TrainRun run;
    run.threads = options.threads > 0 ? options.threads : default_thread_count();
    run.resume = options.resume;
    run.build = build_name();
    run.interrupt = &stop;
    if (options.poll) run.poll = &poll;
    run.tell = options.message;
    return run;
  }

  const int threads;
  const std::function<void()> caller;
  std::atomic<bool> stop = false;
  bool has_failed = false;
  CallerPoll poll;  // of the thread that opened the run
  Trainer trainer;
};

namespace {

TrainConfig with_options(TrainConfig config, const TrainOptions& options) {
  if (options.seed) config.train.seed = *options.seed;
  if (!options.tokenizer.empty()) config.data.tokenizer = options.tokenizer;
  HubAccess access;
  access.poll = options.poll;
  use_local_paths(config, access);
  return config;
}

/// Requests a stop for the time of a step.
struct RaiseStop {
  std::atomic<bool>* flag;
  void operator()() const { *flag = true; }
};

}  // namespace

TrainingRun::TrainingRun(std::shared_ptr<State> state) : state_(std::move(state)) {}
TrainingRun::TrainingRun(TrainingRun&&) noexcept = default;
TrainingRun& TrainingRun::operator=(TrainingRun&&) noexcept = default;
TrainingRun::~TrainingRun() = default;

TrainingRun TrainingRun::open(const std::string& config, const TrainOptions& options) {
  return TrainingRun(std::make_shared<State>(with_options(read_train_config(config), options), options));
}

TrainingRun TrainingRun::of_json(const std::string& tables, const TrainOptions& options) {
  TrainConfig config = train_config_of(parse_json(tables, "config"), "config");
  return TrainingRun(std::make_shared<State>(with_options(std::move(config), options), options));
}

std::optional<TrainProgress> TrainingRun::step(std::stop_token cancel) {
  State& s = *state_;
  if (s.has_failed) throw BadInput("train", "an earlier step has failed; resume the run to go on");
  const std::unique_lock lock(s.changes, std::try_to_lock);
  if (!lock.owns_lock()) throw BadInput("train", "a call on the model in training is running; end it before the step");
  s.stop = false;
  s.poll.claim();
  const std::stop_callback on_cancel(std::move(cancel), RaiseStop{&s.stop});
  s.has_failed = true;
  const bool is_over = !s.trainer.step();
  s.has_failed = false;
  return is_over ? std::nullopt : std::optional(s.trainer.progress());
}

TrainResult TrainingRun::finish() { return state_->trainer.finish(); }

LanguageModel TrainingRun::model() const {
  const Start& start = state_->trainer.start();
  if (start.trainable.adapter() != nullptr) {
    throw Unsupported("train", "the model of a run that trains an adapter cannot be looked into");
  }
  Checkpoint checkpoint;
  checkpoint.model = start.trainable.shared_model();
  checkpoint.family = start.files.family.model_type;
  checkpoint.description = checkpoint.family + ", in training";
  checkpoint.table = std::make_shared<const Family>(start.files.family);
  checkpoint.config = start.files.config.dump(2) + "\n";
  checkpoint.tokenizer_path = start.files.tokenizer;
  OpenOptions options;
  options.threads = state_->threads;
  options.poll = state_->caller;
  auto opened = std::make_shared<LanguageModel::State>("model in training", std::move(checkpoint), options);
  opened->training = state_;
  return LanguageModel(std::move(opened));
}

}  // namespace vitrine
