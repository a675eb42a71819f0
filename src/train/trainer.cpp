#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/load.h"
#include "data/masking.h"
#include "metrics/metrics.h"
#include "tokenizer/tokenizer.h"
#include "train/conversation_data.h"
#include "train/learner.h"
#include "train/open_corpus.h"
#include "train/plan.h"
#include "train/references.h"
#include "train/run_folder.h"
#include "train/samples.h"
#include "train/start.h"
#include "train/tapped_step.h"

namespace vitrine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kValidation = std::uint64_t{1} << 62;  // numbers of validation batches, for their masks
constexpr std::int64_t kMostSkipped = 50;                      // consecutive steps, after which the run ends

/// The metrics of the last step, if the run ended before it wrote them. null represents a value that is not finite.
std::vector<Metric> metrics_of(const Json& unfinished, const std::string& where) {
  std::vector<Metric> metrics;
  for (const auto& [name, value] : unfinished.items()) {
    if (!value.is_number() && !value.is_null()) throw BadCheckpoint(where, "expected numbers as metrics of a step");
    metrics.push_back({name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>()});
  }
  return metrics;
}

/// The fraction of pairs whose chosen answer is preferred, and the mean margin.
std::vector<Metric> pair_metrics(const PairSums& sums, const std::string& prefix) {
  const auto n = static_cast<double>(sums.n);
  return {{prefix + "accuracy", static_cast<double>(sums.n_right) / n}, {prefix + "margin", sums.margin / n}};
}

}  // namespace

class Trainer::Run {
 public:
  Run(const TrainConfig& c, TrainRun run)
      : c_(c),
        run_(std::move(run)),
        pool_(run_.threads),
        folder_(c.out),
        resumed_(step_to_resume()),
        talk_(open_talk()),
        start_(start_from(c,
                          resumed_ ? folder_.checkpoint(*resumed_)
                          : c.lora ? ""
                                   : c.model.checkpoint,
                          pool_, kernels_)),
        optimizer_(c.optimizer, start_.trainable.params()),
        learner_(start_.trainable, optimizer_, c_.train, pool_, kernels_, run_.interrupt, run_.poll),
        corpus_(talk_ ? std::shared_ptr<const TrainingData>(talk_)
                      : open_corpus(c, model().config(), start_.files.config)) {
    if (talk_) talk_->check_with_model(model().config());
    if (!c.data.talk.chat_template.empty()) {
      start_.files.chat_template = std::string(MappedFile::open(c.data.talk.chat_template)->text());
    }
    check_with_model(c, model().config());
    if (c.train.objective == StepOptions::Objective::masked) {
      mask_ = mask_options(c, model().config(), start_.files.config, start_.files.tokenizer);
    }
    open_tokenizer();
    if (resumed_) resume();
  }

  bool step() {
    if (!metrics_) begin();
    if (step_ >= c_.train.steps) return false;
    saving_at_errors([this] { one_step(*metrics_); });
    return true;
  }

  TrainResult finish() {
    save_last_step();
    return {step_, loss_, val_loss_, folder_.checkpoint(step_)};
  }

  const TrainProgress& progress() const { return progress_; }
  const Start& start() const { return start_; }
  void save_to(const std::string& folder) { save_model(start_.trainable, start_.files, folder, pool_); }

 private:
  const Model& model() const { return start_.trainable.model(); }
  void begin() {
    tell_plan(c_, start_, *corpus_, talk_.get(), pool_, [this](const std::string& line) { tell(line); });
    if (run_.loaded) run_.loaded();
    folder_.prepare();
    if (talk_ && talk_->is_pairs()) prefer();
    const std::int64_t last_line = !resumed_ ? -1 : unfinished_.empty() ? step_ : step_ - 1;
    metrics_.emplace(c_.out, last_line, [this](std::int64_t, std::int64_t) { check_interrupt(); });
    if (!unfinished_.empty()) saving_at_errors([this] { finish_step(*metrics_); });
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
      try {
        save_last_step();
      } catch (const std::exception& e) {
        tell(fmt::format("step {} could not be saved: {}", step_, e.what()));
      }
      throw;
    }
  }
  void tell(const std::string& line) const {
    if (run_.tell) run_.tell(line);
  }
  void check_interrupt() const {
    if (run_.interrupt != nullptr && run_.interrupt->load()) throw Interrupted();
  }
  bool is_due(std::int64_t every) const { return every > 0 && step_ % every == 0; }

  std::optional<std::int64_t> step_to_resume() const {
    const std::vector<std::int64_t> steps = folder_.steps();
    if (!run_.resume) {
      if (!steps.empty()) {
        throw BadInput(c_.out,
                       "it already holds a run of {} steps: continue it with --resume, or choose another folder",
                       steps.back());
      }
      return {};
    }
    if (!steps.empty()) return steps.back();
    if (!std::filesystem::exists(folder_.file("metrics.jsonl"))) {
      throw BadInput(c_.out, "there is no run to continue; leave out --resume to start one");
    }
    tell("the run has no checkpoint yet: it starts from the beginning");
    return {};
  }

  std::shared_ptr<const ConversationData> open_talk();
  void prefer();
  void resume();
  void open_tokenizer();
  /// The batch with masks, if the objective is to fill them in.
  Batch with_masks(Batch batch, std::uint64_t number) const {
    return mask_ ? masked(std::move(batch), *mask_, number, corpus_->info().document_token) : batch;
  }
  void one_step(MetricsLog& metrics);
  void finish_step(MetricsLog& metrics);
  Learner::Step learn();
  std::vector<Metric> validate();
  void sample();
  void save();
  void save_last_step() {
    if (step_ > 0 && saved_ != step_) save();
  }

  TrainConfig c_;  // with the steps of its epochs, and the time that templates read
  const TrainRun run_;
  const Kernels& kernels_ = default_kernels();
  ThreadPool pool_;
  RunFolder folder_;
  std::optional<std::int64_t> resumed_;
  std::shared_ptr<const ConversationData> talk_;  // null for shards
  Start start_;
  Optimizer optimizer_;
  Learner learner_;
  std::shared_ptr<const TrainingData> corpus_;
  std::optional<MaskOptions> mask_;
  std::optional<Samples> samples_;     // if the config enables them
  std::optional<MetricsLog> metrics_;  // once the run has begun
  TrainProgress progress_;             // of the last step

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

/// Reads conversations or pairs, before the model and before anything is written. A resumed run has the time of its
/// start.
std::shared_ptr<const ConversationData> Trainer::Run::open_talk() {
  if (!c_.data.is_talk()) return nullptr;
  if (c_.data.talk.now.empty() && resumed_) {
    const Json& fixed = folder_.read_state(*resumed_).words.fixed;
    if (fixed.contains("now") && fixed["now"].is_string()) c_.data.talk.now = fixed["now"].get<std::string>();
  }
  if (c_.data.talk.now.empty()) c_.data.talk.now = current_time();
  auto talk = std::make_shared<const ConversationData>(c_);
  if (c_.train.epochs > 0) {
    const double steps = std::ceil(c_.train.epochs * talk->samples_per_epoch() / static_cast<double>(c_.train.batch));
    c_.train.steps = c_.schedule.steps = static_cast<std::int64_t>(std::min(steps, 1e12));
    vitrine::validate(c_.schedule);
  }
  return talk;
}

/// Lets the learner compare pairs. The scores of the reference are computed once, and kept for a resumed run.
void Trainer::Run::prefer() {
  std::vector<PairScore> references;
  if (c_.preference.has_reference()) {
    const std::string path = folder_.file("reference.json");
    if (resumed_) {
      references = read_references(path, talk_->n_lines());
    } else {
      tell("the reference scores all pairs");
      const bool with_adapter = c_.preference.reference == PreferenceOptions::Reference::start;
      references = talk_->score_all([&](const Batch& batch) { return learner_.score_answers(batch, with_adapter); });
      write_references(path, references);
    }
  }
  learner_.prefer(c_.preference, std::move(references));
}

void Trainer::Run::resume() {
  const TrainerState state = folder_.read_state(*resumed_);
  if (!c_.model.config.is_null() && c_.model.read() != model().config()) {
    throw BadInput(c_.out, "the config's model differs from the run's: the run cannot be resumed");
  }
  check_words(state.words, words_of(c_, *corpus_), c_.out, [this](const std::string& line) { tell(line); });
  folder_.read_arrays(*resumed_, start_.trainable, optimizer_);
  start_.trainable.round_weights(pool_, kernels_);
  optimizer_.set_steps(state.optimizer_steps);
  step_ = saved_ = state.step;
  loss_ = state.loss;
  val_loss_ = state.val_loss;
  if (val_loss_) validated_ = step_;
  if (!state.unfinished.is_null()) unfinished_ = metrics_of(state.unfinished, folder_.checkpoint(step_));
  tell(fmt::format("resuming after step {}: {}", step_, folder_.checkpoint(step_)));
  if (state.isa != name_of(kernels_.isa) || state.build != run_.build) {
    tell(fmt::format("the checkpoint was written by {} with {} instructions, and this is {} with {}: bits may differ",
                     state.build, state.isa, run_.build, name_of(kernels_.isa)));
  }
}

/// Checks that the tokenizer fits the corpus and the checkpoints. Samples keep it.
void Trainer::Run::open_tokenizer() {
  const std::string& path = start_.files.tokenizer;
  const bool samples = c_.log.sample_every > 0;
  if (path.empty()) {
    if (samples) throw BadInput("log.sample_every", "samples need data.tokenizer");
    return;
  }
  std::unique_ptr<const Tokenizer> tokenizer;
  try {
    tokenizer = load_tokenizer(path);
  } catch (const BadInput&) {
    if (!c_.data.tokenizer.empty() || samples) throw;
    return;  // the checkpoint has none
  }
  const TokenInfo& corpus = corpus_->info();
  const TokenInfo& first = corpus_->source_info() != nullptr ? *corpus_->source_info() : corpus;
  if (samples && corpus_->source_info() != nullptr) {
    throw BadInput("log.sample_every", "samples continue a text; an encoder–decoder has none to continue");
  }
  if (tokenizer_fingerprint(*tokenizer) != first.fingerprint) {
    throw BadInput(path, "the tokens in {} come from a different tokenizer", c_.data.train);
  }
  tokenizer_files(path);  // throws now for a tokenizer that a checkpoint cannot hold
  if (samples) samples_.emplace(c_, std::move(tokenizer), corpus, model().config());
}

Learner::Step Trainer::Run::learn() {
  const Batch batch = with_masks(corpus_->batch(step_), static_cast<std::uint64_t>(step_));
  read_tokens_ = static_cast<std::int64_t>(batch.inputs.size() + batch.sources.size());
  const bool is_due_next = c_.log.taps_every > 0 && (step_ + 1) % c_.log.taps_every == 0;
  // The first step already records the sites, so that a site that the model lacks is reported at once.
  const bool looks = is_due_next || (c_.log.taps_every > 0 && !has_looked_);
  if (c_.log.writes.empty() && !looks) return learner_.learn(batch, step_);
  const std::string path = is_due_next ? folder_.file(fmt::format("taps/step-{:06}.safetensors", step_ + 1)) : "";
  TappedStep taps(c_.log, model().config(), looks, path, batch.n_pieces(c_.train.micro_batches));
  Learner::Step step = learner_.learn(batch, step_, [&taps](std::int64_t part) { return taps.of_part(part); });
  if (!step.skipped.empty()) return step;  // the pass ended early, before some of its sites
  taps.commit();
  has_looked_ = true;
  return step;
}

void Trainer::Run::one_step(MetricsLog& metrics) {
  check_interrupt();
  const Clock::time_point begun = Clock::now();
  const double lr = learning_rate(c_.schedule, step_);
  Learner::Step step = learn();
  learner_.update(step, lr);
  line_seconds_ += std::chrono::duration<double>(Clock::now() - begun).count();
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
  finish_step(metrics);
  if (step.targets == 0) return;  // another batch may have targets
  skipped_ = step.skipped.empty() ? 0 : skipped_ + 1;
  if (skipped_ < kMostSkipped) return;
  throw BadInput(c_.out, "{} steps in a row changed nothing, the last because {}; a lower learning rate may help",
                 skipped_, step.skipped);
}

/// Validation, samples, metrics and checkpoints after a step. If this throws, a resumed run starts here.
void Trainer::Run::finish_step(MetricsLog& metrics) {
  const auto value_of = [this](std::string_view name) {
    const auto it =
        std::find_if(unfinished_.begin(), unfinished_.end(), [&](const Metric& m) { return m.name == name; });
    return it != unfinished_.end() ? it->value : 0.0;
  };
  std::vector<Metric> line = unfinished_;
  const bool is_last = step_ == c_.train.steps, is_skipped = value_of("skipped") > 0;
  const bool validates = corpus_->validation_batches() > 0 && (is_last || is_due(c_.log.validate_every));
  if (validates) {
    const std::vector<Metric> found = validate();
    line.insert(line.end(), found.begin(), found.end());
  }
  const double speed = line_seconds_ > 0 ? static_cast<double>(line_tokens_) / line_seconds_ : 0;
  if (speed > 0) line.push_back({"tokens_per_s", speed});
  progress_ = {step_, c_.train.steps, loss_, value_of("lr"), value_of("grad_norm"), speed, val_loss_};
  if (run_.show) run_.show(progress_);
  if (is_due(c_.log.sample_every)) sample();
  if (is_due(c_.log.every) || is_last || validates || is_skipped) {
    metrics.write(step_, line);
    line_tokens_ = 0;
    line_seconds_ = 0;
  }
  unfinished_.clear();
  if (is_due(c_.log.save_every)) save();
}

std::vector<Metric> Trainer::Run::validate() {
  const std::int64_t all = corpus_->validation_batches();
  const std::int64_t n = c_.log.validate_batches > 0 ? std::min(all, c_.log.validate_batches) : all;
  double nats = 0;
  std::int64_t tokens = 0;
  PairSums pairs;
  try {
    for (std::int64_t i = 0; i < n; ++i) {
      const Batch batch = with_masks(corpus_->validation_batch(i), kValidation + static_cast<std::uint64_t>(i));
      if (!batch.pairs.empty()) {
        pairs.add(learner_.compare(batch));
        nats = pairs.loss;
        tokens = pairs.n;
        continue;
      }
      nats += learner_.score(batch);
      tokens += batch.n_counted();
    }
    if (tokens == 0) tell(fmt::format("step {}: no validation: no target counts", step_));
  } catch (const NotFinite& e) {
    tell(fmt::format("step {}: no validation: {}", step_, e.what()));
    tokens = 0;
  }
  val_loss_ = tokens > 0 ? nats / static_cast<double>(tokens) : std::numeric_limits<double>::quiet_NaN();
  validated_ = step_;
  std::vector<Metric> found = {{"val_loss", *val_loss_}};
  if (pairs.n > 0 && tokens > 0) {
    const std::vector<Metric> more = pair_metrics(pairs, "val_");
    found.insert(found.end(), more.begin(), more.end());
  }
  if (!mask_ && corpus_->tokens_per_byte() > 0)
    found.push_back({"val_bits_per_byte", *val_loss_ / std::numbers::ln2 * corpus_->tokens_per_byte()});
  return found;
}

void Trainer::Run::sample() {
  try {
    const std::string text =
        samples_->generate_one(model(), start_.trainable.adapters(), pool_, kernels_, run_.interrupt, run_.poll);
    folder_.write_sample(step_, text);
    if (run_.show_text) run_.show_text(text);
  } catch (const NotFinite& e) {
    tell(fmt::format("step {}: no sample: {}", step_, e.what()));
  }
}

void Trainer::Run::save() {
  saved_ = step_;
  TrainerState state;
  state.step = step_;
  state.optimizer_steps = optimizer_.steps();
  state.loss = loss_;
  if (validated_ == step_) state.val_loss = val_loss_;
  state.isa = name_of(kernels_.isa);
  state.build = run_.build;
  state.words = words_of(c_, *corpus_);
  for (const Metric& metric : unfinished_) state.unfinished[metric.name] = metric.value;
  folder_.save(start_.trainable, start_.files, optimizer_, state, c_.log.keep_last, pool_);
}

Trainer::Trainer(const TrainConfig& config, TrainRun run) : run_(std::make_unique<Run>(config, std::move(run))) {}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

bool Trainer::step() { return run_->step(); }
TrainResult Trainer::finish() { return run_->finish(); }
const TrainProgress& Trainer::progress() const { return run_->progress(); }
const Start& Trainer::start() const { return run_->start(); }
void Trainer::save(const std::string& folder) { run_->save_to(folder); }

TrainResult train(const TrainConfig& config, const TrainRun& run) {
  Trainer trainer(config, run);
  while (trainer.step()) continue;
  return trainer.finish();
}

}  // namespace vitrine
