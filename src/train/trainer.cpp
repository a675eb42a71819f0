#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/mapped_file.h"
#include "data/masking.h"
#include "metrics/metrics.h"
#include "model/describe.h"
#include "tokenizer/tokenizer.h"
#include "train/dictionary/dictionary_trainer.h"
#include "train/distributed/cluster.h"
#include "train/distributed/divided_state.h"
#include "train/distributed/shared_start.h"
#include "train/learner.h"
#include "train/lens/lens_trainer.h"
#include "train/plan.h"
#include "train/run_folder.h"
#include "train/samples.h"
#include "train/start.h"
#include "train/tapped_step.h"
#include "train/validation.h"

namespace vitrine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kValidation = std::uint64_t{1} << 62;  // numbers of validation batches, for their masks
constexpr std::int64_t kMaxSkipped = 50;                       // consecutive steps, after which the run ends

std::unique_ptr<RunFolder> open_folder(Ranks& ranks, const TrainConfig& c, const TrainRun& run) {
  check_same_run(ranks, c, run.config_file, run.build);
  check_same_data(ranks, c);
  return ranks.together([&] { return ranks.is_first() ? std::make_unique<RunFolder>(c.out) : nullptr; });
}

}  // namespace

class Trainer::Run {
 public:
  Run(const TrainConfig& c, TrainRun run)
      : c_(c),
        run_(std::move(run)),
        ranks_(run_.ranks != nullptr ? *run_.ranks : alone_),
        pool_(run_.threads),
        folder_(open_folder(ranks_, c, run_)),
        resumed_(step_to_resume()),
        talk_(open_talk(ranks_, c_, folder_.get(), resumed_)),
        start_(shared_start(ranks_, run_.shard, c,
                            resumed_ ? checkpoint_path(c.out, *resumed_)
                            : c.lora ? ""
                                     : c.model.checkpoint,
                            pool_, kernels_)),
        optimizer_(c.optimizer, start_.trainable.params()),
        learner_(start_.trainable, optimizer_, c_.train, pool_, kernels_, interrupt(), run_.poll) {
    ranks_.together([&] { open_data(); });
    ranks_.together([&] { learner_.share(ranks_, run_.shard, c.text ? c.data.texts : c.data.train); });
    share_start();
  }

  bool step() {
    if (!has_begun_) begin();
    if (step_ >= c_.train.steps || has_enough()) return false;
    saving_at_errors([this] { one_step(); });
    return true;
  }

  TrainResult finish() {
    save_last_step();
    return {step_, loss_, val_loss_, checkpoint_path(c_.out, step_),
            ranks_.is_alone() ? "" : cluster_.summary(name_of(run_.shard)).dump()};
  }

  const TrainProgress& progress() const { return progress_; }
  const Start& start() const { return start_; }
  void save_to(const std::string& folder) { save_model(start_.trainable, start_.files, folder, pool_); }

 private:
  const Model& model() const { return start_.trainable.model(); }
  void begin() {
    for (const std::string& line :
         plan_of(c_, start_, *corpus_, {talk_.get(), texts_.get()}, ranks_, run_.shard, pool_))
      tell(line);
    if (run_.loaded) run_.loaded();
    ranks_.together([&] {
      if (folder_) folder_->prepare();
    });
    if (talk_ && talk_->is_pairs()) {
      prefer_pairs(ranks_, c_, *talk_, learner_, resumed_.has_value(), [this](const std::string& line) { tell(line); });
    }
    ranks_.together([&] { open_logs(); });
    has_begun_ = true;
    if (!unfinished_.empty()) saving_at_errors([this] { finish_step(); });
  }
  /// Calls `work`. If it throws, saves the last complete step first.
  template <class Work>
  void saving_at_errors(Work&& work) {
    try {
      work();
    } catch (const Interrupted&) {
      save_last_step();
      throw;
    } catch (...) {
      // The ranks that have parts of a divided state answer only if they know of the error.
      if (optimizer_.is_divided() && !ranks_.has_agreed_to_fail()) throw;
      try {
        save_last_step();
      } catch (const std::exception& e) {
        tell(fmt::format("step {} could not be saved: {}", step_, e.what()));
      }
      throw;
    }
  }
  void tell(const std::string& line) const {
    if (run_.tell && ranks_.is_first()) run_.tell(line);
  }
  /// One of several ranks stops only after a step, when all do.
  const std::atomic<bool>* interrupt() const { return ranks_.is_alone() ? run_.interrupt : nullptr; }
  void check_interrupt() const {
    if (interrupt() != nullptr && interrupt()->load()) throw Interrupted();
  }
  RankReport::Stop requested_stop() const {
    if (run_.interrupt != nullptr && run_.interrupt->load()) return RankReport::interrupt;
    return run_.enough != nullptr && run_.enough->load() ? RankReport::save_and_end : RankReport::go_on;
  }
  bool has_enough() const {
    if (!ranks_.is_alone()) return cluster_.agreed() == RankReport::save_and_end;
    return run_.enough != nullptr && run_.enough->load();
  }
  bool is_due(std::int64_t every) const { return every > 0 && step_ % every == 0; }

  /// Rank 0 decides.
  std::optional<std::int64_t> step_to_resume() {
    std::int64_t step =
        ranks_.together([&] { return folder_ ? folder_->step_to_resume(run_.resume).value_or(-1) : -1; });
    ranks_.broadcast(std::as_writable_bytes(std::span(&step, 1)));
    if (run_.resume && step < 0) tell("the run has no checkpoint yet: it starts from the beginning");
    return step >= 0 ? std::optional(step) : std::nullopt;
  }

  void open_data();
  void share_start();
  void open_logs();
  void resume();
  /// The batch with masks, if the objective is to fill them in.
  Batch with_masks(Batch batch, std::uint64_t number) const {
    return mask_ ? masked(std::move(batch), *mask_, number, corpus_->info().document_token) : batch;
  }
  void one_step();
  void finish_step();
  Learner::Step forward_backward();
  std::vector<Metric> validation_metrics();
  void sample();
  void save();
  void save_last_step() {
    if (step_ > 0 && saved_ != step_) save();
  }

  TrainConfig c_;  // with the steps of its epochs, and the time that templates read
  const TrainRun run_;
  const Kernels& kernels_ = default_kernels();
  Ranks alone_;  // if the run has no others
  Ranks& ranks_;
  ThreadPool pool_;
  std::unique_ptr<RunFolder> folder_;  // of rank 0
  std::optional<std::int64_t> resumed_;
  std::shared_ptr<const ConversationData> talk_;  // null for shards
  Start start_;
  Optimizer optimizer_;
  Learner learner_;
  std::shared_ptr<const TrainingData> corpus_;
  std::shared_ptr<const TextData> texts_;  // null for others
  ReadArray read_array_;                   // of the checkpoint that rank 0 resumes
  std::optional<MaskOptions> mask_;
  std::optional<Samples> samples_;     // if the config enables them
  std::optional<MetricsLog> metrics_;  // of rank 0
  ClusterLog cluster_{ranks_};
  TrainProgress progress_;  // of the last step
  bool has_begun_ = false;

  std::int64_t step_ = 0;    // steps done
  std::int64_t saved_ = -1;  // the last one that has a checkpoint, or whose checkpoint could not be written
  double loss_ = 0;
  std::optional<double> val_loss_;  // the last one, and its step
  std::int64_t validated_ = -1;
  std::int64_t skipped_ = 0;        // steps in a row whose values were not finite
  bool has_looked_ = false;         // the sites of the config exist
  std::vector<Metric> unfinished_;  // of the last step, until they are written
  std::int64_t read_tokens_ = 0;    // by the last step
  std::int64_t line_tokens_ = 0;    // since the last line of metrics, and the time they took
  double line_seconds_ = 0;
};

/// Opens the data and checks that everything fits together. Rank 0 also resumes.
void Trainer::Run::open_data() {
  take_balance_loss(c_.train, start_.files);
  if (c_.text) {
    corpus_ = texts_ = open_texts(c_, start_);
    learner_.learn_texts(texts_->objective(), texts_->result());
  } else {
    corpus_ =
        talk_ ? std::shared_ptr<const TrainingData>(talk_) : open_corpus(c_, model().config(), start_.files.config);
  }
  if (talk_) talk_->check_with_model(model().config());
  if (!c_.data.talk.chat_template.empty()) {
    start_.files.chat_template = std::string(MappedFile::open(c_.data.talk.chat_template)->text());
  }
  check_with_model(c_, model().config());
  if (!folder_) return;
  if (c_.train.objective == StepOptions::Objective::masked) {
    mask_ = mask_options(c_, model().config(), start_.files.config, start_.files.tokenizer);
  }
  samples_ = open_samples(c_, start_.files.tokenizer, *corpus_, model().config());
  if (resumed_) resume();
}

/// Gives the other ranks what rank 0 has read from checkpoints.
void Trainer::Run::share_start() {
  if (ranks_.is_alone()) return;
  if (c_.train.objective == StepOptions::Objective::masked) {
    MaskOptions options = mask_.value_or(MaskOptions{});
    ranks_.broadcast(std::as_writable_bytes(std::span(&options, 1)));
    mask_ = options;
  }
  if (resumed_ || !c_.model.checkpoint.empty()) {
    share_state(ranks_, run_.shard, start_.trainable, optimizer_, learner_.shared()->slices(), resumed_.has_value(),
                read_array_, pool_, kernels_);
  }
  read_array_ = {};
  struct {
    std::int64_t step, optimizer_steps, has_unfinished;
  } place = {step_, optimizer_.steps(), unfinished_.empty() ? 0 : 1};
  ranks_.broadcast(std::as_writable_bytes(std::span(&place, 1)));
  optimizer_.set_steps(place.optimizer_steps);
  if (folder_) return;
  step_ = saved_ = place.step;
  if (place.has_unfinished == 1) unfinished_ = {{"loss", 0}};
}

void Trainer::Run::open_logs() {
  if (!folder_) return;
  const std::int64_t done = !resumed_ ? -1 : unfinished_.empty() ? step_ : step_ - 1;
  metrics_.emplace(c_.out, done, [this](std::int64_t, std::int64_t) { check_interrupt(); });
  if (!ranks_.is_alone()) cluster_.open(c_.out, done);
}

void Trainer::Run::resume() {
  const TrainerState state = folder_->read_state(*resumed_);
  if (!c_.model.config.is_null()) {
    const std::string what = first_difference(c_.model.read(), model().config());
    if (!what.empty()) {
      throw BadInput(c_.out, "the config's model differs from the run's, which cannot be resumed: {}", what);
    }
  }
  check_words(state.words, words_of(c_, *corpus_), c_.out, [this](const std::string& line) { tell(line); });
  read_array_ = folder_->open_arrays(*resumed_, start_.trainable, optimizer_);
  if (ranks_.is_alone()) {
    for (const OptimizerArray& array : optimizer_.state(start_.trainable.params())) read_array_(array);
    for (const OptimizerArray& master : masters_of(start_.trainable)) read_array_(master);
    start_.trainable.round_weights(pool_, kernels_);
  }
  optimizer_.set_steps(state.optimizer_steps);
  step_ = saved_ = state.step;
  loss_ = state.loss;
  val_loss_ = state.val_loss;
  if (val_loss_) validated_ = step_;
  if (!state.unfinished.is_null()) unfinished_ = metrics_of(state.unfinished, folder_->checkpoint(step_));
  tell(fmt::format("resuming after step {}: {}", step_, folder_->checkpoint(step_)));
  if (state.isa != name_of(kernels_.isa) || state.build != run_.build) {
    tell(fmt::format("the checkpoint was written by {} with {} instructions, and this is {} with {}: bits may differ",
                     state.build, state.isa, run_.build, name_of(kernels_.isa)));
  }
}

Learner::Step Trainer::Run::forward_backward() {
  const Batch batch = with_masks(corpus_->batch(step_), static_cast<std::uint64_t>(step_));
  read_tokens_ = static_cast<std::int64_t>(batch.inputs.size() + batch.sources.size());
  const bool is_due_next = c_.log.taps_every > 0 && (step_ + 1) % c_.log.taps_every == 0;
  // The first step already records the sites, so that a site that the model lacks is reported at once.
  const bool looks = folder_ && (is_due_next || (c_.log.taps_every > 0 && !has_looked_));
  if (c_.log.writes.empty() && !looks) return learner_.forward_backward(batch, step_);
  const std::string path =
      is_due_next && folder_ ? folder_->file(fmt::format("taps/step-{:06}.safetensors", step_ + 1)) : "";
  TappedStep taps(c_.log, model().config(), looks, path, batch.n_pieces(c_.train.micro_batches));
  Learner::Step step =
      learner_.forward_backward(batch, step_, [&taps](std::int64_t part) { return taps.of_part(part); });
  if (!step.skipped.empty()) return step;  // the pass ended early, before some of its sites
  taps.commit();
  has_looked_ = true;
  return step;
}

void Trainer::Run::one_step() {
  check_interrupt();
  ranks_.take_traffic();  // of other things than this step
  const Clock::time_point begun = Clock::now();
  const double lr = learning_rate(c_.schedule, step_);
  Learner::Step step = forward_backward();
  learner_.update(step, lr);
  const double step_s = std::chrono::duration<double>(Clock::now() - begun).count();
  line_seconds_ += step_s;
  line_tokens_ += read_tokens_;
  ++step_;
  loss_ = step.loss;
  unfinished_ = {{"loss", step.loss}, {"lr", lr}, {"grad_norm", step.grad_norm}};
  if (step.pairs.n > 0) {
    const std::vector<Metric> more = pair_metrics(step.pairs, "");
    unfinished_.insert(unfinished_.end(), more.begin(), more.end());
  }
  if (step.auxiliary != 0) unfinished_.push_back({"auxiliary_loss", step.auxiliary});
  if (!step.skipped.empty()) {
    unfinished_.push_back({"skipped", 1});
    tell(fmt::format("step {} changed nothing: {}", step_, step.skipped));
  }
  if (!ranks_.is_alone()) cluster_.meet(step_s, requested_stop());
  finish_step();
  if (!ranks_.is_alone() && cluster_.agreed() == RankReport::interrupt) throw Interrupted();
  if (step.targets == 0) return;  // another batch may have targets
  skipped_ = step.skipped.empty() ? 0 : skipped_ + 1;
  if (skipped_ < kMaxSkipped) return;
  ranks_.together([&] {
    throw BadInput(c_.out, "{} steps in a row changed nothing, the last because {}; a lower learning rate may help",
                   skipped_, step.skipped);
  });
}

/// Validation, samples, metrics and checkpoints after a step. If this throws, a resumed run starts here.
void Trainer::Run::finish_step() {
  const auto value_of = [this](std::string_view name) {
    const auto it =
        std::find_if(unfinished_.begin(), unfinished_.end(), [&](const Metric& m) { return m.name == name; });
    return it != unfinished_.end() ? it->value : 0.0;
  };
  std::vector<Metric> line = unfinished_;
  const bool is_last = step_ == c_.train.steps, is_skipped = value_of("skipped") > 0;
  const bool validates = corpus_->validation_batches() > 0 && (is_last || is_due(c_.log.validate_every));
  if (validates) {
    const std::vector<Metric> found = validation_metrics();
    line.insert(line.end(), found.begin(), found.end());
  }
  const double speed = line_seconds_ > 0 ? static_cast<double>(line_tokens_) / line_seconds_ : 0;
  if (speed > 0) line.push_back({"tokens_per_s", speed});
  progress_ = {step_, c_.train.steps, loss_, value_of("lr"), value_of("grad_norm"), speed, val_loss_};
  if (run_.show) run_.show(progress_);
  if (is_due(c_.log.sample_every)) learner_.at_first([this] { sample(); });
  if (is_due(c_.log.every) || is_last || validates || is_skipped) {
    if (metrics_) metrics_->write(step_, line);
    if (folder_ && !ranks_.is_alone()) cluster_.write(step_, [this](const std::string& text) { tell(text); });
    line_tokens_ = 0;
    line_seconds_ = 0;
  }
  unfinished_.clear();
  if (is_due(c_.log.save_every)) save();
}

std::vector<Metric> Trainer::Run::validation_metrics() {
  const std::int64_t all = corpus_->validation_batches();
  const std::int64_t n = c_.log.validate_batches > 0 ? std::min(all, c_.log.validate_batches) : all;
  const auto batch_of = [this](std::int64_t i) {
    return with_masks(corpus_->validation_batch(i), kValidation + static_cast<std::uint64_t>(i));
  };
  const Validation v = validate(learner_, n, batch_of, ranks_);
  if (!v.failure.empty()) {
    tell(fmt::format("step {}: no validation: {}", step_, v.failure));
  } else if (v.tokens == 0) {
    tell(fmt::format("step {}: no validation: no target counts", step_));
  }
  val_loss_ = v.loss();
  validated_ = step_;
  return v.metrics(mask_ ? 0 : corpus_->tokens_per_byte());
}

void Trainer::Run::sample() {
  try {
    const std::string text =
        samples_->generate_one(model(), start_.trainable.adapters(), pool_, kernels_, interrupt(), run_.poll);
    folder_->write_sample(step_, text);
    if (run_.show_text) run_.show_text(text);
  } catch (const NotFinite& e) {
    tell(fmt::format("step {}: no sample: {}", step_, e.what()));
  }
}

void Trainer::Run::save() {
  saved_ = step_;
  if (learner_.shared() != nullptr) learner_.shared()->settle();
  std::optional<StateReader> reader;
  if (optimizer_.is_divided()) {
    reader.emplace(ranks_, run_.shard, start_.trainable, optimizer_, learner_.shared()->slices());
  }
  if (!folder_ && reader) reader->serve();
  if (!folder_) return;
  TrainerState state;
  state.step = step_;
  state.optimizer_steps = optimizer_.steps();
  state.loss = loss_;
  if (validated_ == step_) state.val_loss = val_loss_;
  state.isa = name_of(kernels_.isa);
  state.build = run_.build;
  state.words = words_of(c_, *corpus_);
  for (const Metric& metric : unfinished_) state.unfinished[metric.name] = metric.value;
  const Hold hold = reader ? [&](const void* element) { reader->hold(element); } : Hold();
  folder_->save(start_.trainable, start_.files, optimizer_, state, c_.log.keep_last, pool_, hold);
  if (reader) reader->finish();
}

Trainer::Trainer(const TrainConfig& config, TrainRun run) {
  if (config.sae || config.lens) {
    throw Unsupported("train", "a run with [sae] or [lens] has no model that changes between steps: use train()");
  }
  run_ = std::make_unique<Run>(config, std::move(run));
}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

bool Trainer::step() { return run_->step(); }
TrainResult Trainer::finish() { return run_->finish(); }
const TrainProgress& Trainer::progress() const { return run_->progress(); }
const Start& Trainer::start() const { return run_->start(); }
void Trainer::save(const std::string& folder) { run_->save_to(folder); }

TrainResult train(const TrainConfig& config, const TrainRun& run) {
  if (config.sae) return train_dictionaries(config, run);
  if (config.lens) return train_lens(config, run);
  Trainer trainer(config, run);
  while (trainer.step()) continue;
  return trainer.finish();
}

}  // namespace vitrine
