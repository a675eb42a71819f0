#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "checkpoint/config_json.h"
#include "generate/generator.h"
#include "model/count.h"
#include "tokenizer/fingerprint.h"
#include "train/baselines.h"
#include "train/learner.h"
#include "train/memory.h"
#include "train/metrics.h"
#include "train/run_folder.h"
#include "train/run_words.h"
#include "train/start.h"
#include "train/tapped_step.h"

namespace vitrine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostSkipped = 50;                 // steps in a row, then a run is beyond help
constexpr std::int64_t kMostBaselineTokens = 20'000'000;  // of training, at 45 bytes each

/// Metrics of a step that was interrupted before they were written. What is null was not finite.
std::vector<Metric> metrics_of(const Json& unfinished, const std::string& where) {
  std::vector<Metric> metrics;
  for (const auto& [name, value] : unfinished.items()) {
    if (!value.is_number() && !value.is_null()) throw BadCheckpoint(where, "expected numbers as metrics of a step");
    metrics.push_back({name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>()});
  }
  return metrics;
}

class Training {
 public:
  Training(const TrainConfig& c, const TrainRun& run)
      : c_(c),
        run_(run),
        pool_(run.threads),
        folder_(c.out),
        resumed_(step_to_resume()),
        start_(start_from(c, resumed_ ? folder_.checkpoint(*resumed_) : c.model.checkpoint, pool_, kernels_)),
        optimizer_(c.optimizer, start_.trainable.params()),
        learner_(start_.trainable, optimizer_, c.train, pool_, kernels_, run.interrupt),
        shards_(TokenShards::open(c.data.train)),
        data_(shards_, dataset_options(c.data.validation.empty() ? c.data.validation_fraction : 0), vocab_size()) {
    check_with_model(c, model().config());
    if (!c.data.validation.empty()) {
      held_out_shards_.emplace(TokenShards::open(c.data.validation));
      held_out_.emplace(*held_out_shards_, dataset_options(1), vocab_size());
    }
    check_request();
    open_tokenizer();
    if (resumed_) resume();
  }

  TrainResult run() {
    tell_plan();
    folder_.prepare();
    MetricsLog metrics(c_.out, resumed_.value_or(-1));
    if (!resumed_) log_baselines(metrics);
    try {
      if (!unfinished_.empty()) finish_step(metrics);
      while (step_ < c_.train.steps) one_step(metrics);
    } catch (const Interrupted&) {
      if (saved_ != step_) save();
      throw;
    }
    if (saved_ != step_) save();
    return {step_, loss_, val_loss_, folder_.checkpoint(step_)};
  }

 private:
  const Model& model() const { return start_.trainable.model(); }
  std::int64_t vocab_size() const { return model().config().vocab_size; }
  void tell(const std::string& line) const {
    if (run_.tell) run_.tell(line);
  }
  bool is_due(std::int64_t every) const { return every > 0 && step_ % every == 0; }

  DatasetOptions dataset_options(double validation) const {
    const StepOptions& t = c_.train;
    return {t.seq_len, t.batch, t.seed, validation, c_.data.mask_documents};
  }
  /// Where validation comes from; null: nothing is held out.
  const Dataset* held_out() const { return held_out_ ? &*held_out_ : data_.validation_tokens() > 0 ? &data_ : nullptr; }

  std::optional<std::int64_t> step_to_resume() const {
    const std::vector<std::int64_t> steps = folder_.steps();
    if (!run_.resume) {
      if (!steps.empty()) {
        throw BadInput(c_.out, "a run with {} steps stands there: --resume goes on with it, another folder begins anew",
                       steps.back());
      }
      return {};
    }
    if (!steps.empty()) return steps.back();
    if (!std::filesystem::exists(folder_.file("metrics.jsonl"))) {
      throw BadInput(c_.out, "there is no run to go on with; without --resume one begins");
    }
    tell("no checkpoint was written yet: the run begins anew");
    return {};
  }

  void resume();
  void check_request() const;
  void open_tokenizer();
  void check_prompt();
  void tell_plan();
  void log_baselines(MetricsLog& metrics);
  void one_step(MetricsLog& metrics);
  void finish_step(MetricsLog& metrics);
  void give_up_on(const Learner::Step& step);
  Learner::Step learn(double lr);
  std::vector<Metric> validate();
  void sample();
  void save();

  const TrainConfig& c_;
  const TrainRun& run_;
  const Kernels& kernels_ = default_kernels();
  ThreadPool pool_;
  RunFolder folder_;
  std::optional<std::int64_t> resumed_;
  Start start_;
  Optimizer optimizer_;
  Learner learner_;
  TokenShards shards_;
  Dataset data_;
  std::optional<TokenShards> held_out_shards_;
  std::optional<Dataset> held_out_;
  std::unique_ptr<const Tokenizer> tokenizer_;  // null: samples and names of pieces are not to be had

  std::int64_t step_ = 0;    // done
  std::int64_t saved_ = -1;  // the last one with a checkpoint
  double loss_ = 0;
  std::optional<double> val_loss_;  // the last one, and the step that it is of
  std::int64_t validated_ = -1;
  std::int64_t skipped_ = 0;          // steps in a row
  bool has_looked_ = false;           // sites of the config are known to be there
  std::vector<Metric> unfinished_;    // of the step that is done, until they are written
  std::vector<std::int32_t> prompt_;  // of samples
  std::int64_t line_tokens_ = 0;      // since the last line of metrics, and the seconds of their steps
  double line_seconds_ = 0;
};

void Training::resume() {
  const TrainerState state = folder_.read_state(*resumed_);
  if (!c_.model.config.is_null()) {
    const Family& family = family_of(c_.model.config, c_.model.where);
    if (read_model_config(family, c_.model.config, c_.model.where) != model().config()) {
      throw BadInput(c_.out, "the model of the run is not that of the config: it cannot go on as the same run");
    }
  }
  check_words(state.words, words_of(c_, shards_, data_), c_.out, [this](const std::string& line) { tell(line); });
  folder_.read_arrays(*resumed_, start_.trainable, optimizer_);
  start_.trainable.round_weights(pool_, kernels_);
  optimizer_.set_steps(state.optimizer_steps);
  step_ = saved_ = state.step;
  loss_ = state.loss;
  val_loss_ = state.val_loss;
  if (val_loss_) validated_ = step_;
  if (!state.unfinished.is_null()) unfinished_ = metrics_of(state.unfinished, folder_.checkpoint(step_));
  tell(fmt::format("going on from step {} of {}", step_, folder_.checkpoint(step_)));
  if (state.isa != name_of(kernels_.isa) || state.build != run_.build) {
    tell(fmt::format("the checkpoint was written by {} with {} instructions, this is {} with {}: bits may differ",
                     state.build, state.isa, run_.build, name_of(kernels_.isa)));
  }
}

/// What the config asks for is there, and the corpora go together.
void Training::check_request() const {
  if (held_out_shards_ && held_out_shards_->info().fingerprint != shards_.info().fingerprint) {
    throw BadInput(c_.data.validation, "its tokens were made by another tokenizer than those in {}", c_.data.train);
  }
}

void Training::open_tokenizer() {
  const std::string& path = start_.files.tokenizer;
  if (path.empty()) {
    if (c_.log.sample_every > 0) throw BadInput("log.sample_every", "samples need data.tokenizer");
    return;
  }
  try {
    tokenizer_ = load_tokenizer(path);
  } catch (const BadInput&) {
    if (!c_.data.tokenizer.empty() || c_.log.sample_every > 0) throw;
    return;  // a checkpoint without one
  }
  if (tokenizer_fingerprint(*tokenizer_) != shards_.info().fingerprint) {
    throw BadInput(path, "the tokens in {} were made by another tokenizer", c_.data.train);
  }
  tokenizer_files(path);  // what a checkpoint cannot hold is told now
  if (c_.log.sample_every > 0) check_prompt();
}

void Training::check_prompt() {
  prompt_ = tokenizer_->encode(c_.log.sample_prompt, SpecialTokens::apply);
  if (prompt_.empty()) prompt_ = {shards_.info().document_token.value_or(0)};
  if (static_cast<std::int64_t>(prompt_.size()) < model().config().max_seq_len) return;
  throw BadInput("log.sample_prompt", "expected fewer tokens than the model's context of {}, got {}",
                 model().config().max_seq_len, prompt_.size());
}

void Training::tell_plan() {
  const StepOptions& t = c_.train;
  const ModelConfig& config = model().config();
  const auto n_params = static_cast<double>(count_params(config));
  const auto tokens = static_cast<double>(t.batch * t.seq_len);
  const auto corpus = static_cast<double>(data_.train_tokens());
  tell(fmt::format(
      "{:.2f} M parameters ({}); {} steps of {} x {} tokens: {:.2f} epochs of {} tokens; {:.3g} parameters a "
      "token of the corpus",
      n_params / 1e6, start_.files.family.model_type, t.steps, t.batch, t.seq_len,
      static_cast<double>(t.steps) * tokens / corpus, data_.train_tokens(), n_params / corpus));
  if (start_.files.family.model_type == "vitrine") {
    tell("no published family describes this config: its checkpoints are for vitrine alone (model_type vitrine)");
  }
  const auto parts = training_memory(
      config, {t.batch / t.micro_batches, t.seq_len, t.dtype, c_.optimizer.kind, t.recompute, t.dropout > 0}, pool_);
  std::string list;
  for (const MemoryPart& part : parts) list += fmt::format(", {} {:.0f} MB", part.name, part.bytes / 1e6);
  tell(fmt::format("memory: about {:.0f} MB{}", total_bytes(parts) / 1e6, list));
}

/// Unigram, bigram and 5-gram models of the same tokens, beside which a loss says something.
void Training::log_baselines(MetricsLog& metrics) {
  const Dataset* const dataset = held_out();
  if (dataset == nullptr) return;
  const TokenShards& from = held_out_ ? *held_out_shards_ : shards_;
  std::vector<std::int32_t> train(static_cast<std::size_t>(std::min(data_.train_tokens(), kMostBaselineTokens)));
  std::vector<std::int32_t> test(static_cast<std::size_t>(std::min(dataset->validation_tokens(), kMostBaselineTokens)));
  shards_.read(0, train);
  from.read(from.tokens() - dataset->validation_tokens(), test);
  const NgramCounts counts(train, vocab_size());
  const double unigram = counts.cross_entropy(test, 1, pool_), bigram = counts.cross_entropy(test, 2, pool_);
  const double five = counts.cross_entropy(test, 5, pool_);
  tell(fmt::format("held out, by counting alone: unigram {:.4f}, bigram {:.4f}, 5-gram {:.4f} nats a token", unigram,
                   bigram, five));
  metrics.write(0, std::vector<Metric>{{"unigram_loss", unigram}, {"bigram_loss", bigram}, {"fivegram_loss", five}});
}

Learner::Step Training::learn(double lr) {
  const Batch batch = data_.batch(step_);
  const bool is_due_next = c_.log.taps_every > 0 && (step_ + 1) % c_.log.taps_every == 0;
  // A site that the model does not have is told after the first step, not when the first look is due.
  const bool looks = is_due_next || (c_.log.taps_every > 0 && !has_looked_);
  if (c_.log.writes.empty() && !looks) return learner_.step(batch, step_, lr);
  TappedStep taps(c_.log, model().config(), looks,
                  is_due_next ? folder_.file(fmt::format("taps/step-{:06}.safetensors", step_ + 1)) : "");
  const Learner::Step step = learner_.step(batch, step_, lr, &taps.recorder());
  if (!std::isfinite(step.loss)) return step;  // the pass ended early: not all sites were met
  taps.commit();
  has_looked_ = true;
  return step;
}

void Training::one_step(MetricsLog& metrics) {
  if (run_.interrupt != nullptr && run_.interrupt->load()) throw Interrupted();
  const Clock::time_point begun = Clock::now();
  const double lr = learning_rate(c_.schedule, step_);
  const Learner::Step step = learn(lr);
  line_seconds_ += std::chrono::duration<double>(Clock::now() - begun).count();
  line_tokens_ += c_.train.batch * c_.train.seq_len;
  ++step_;
  loss_ = step.loss;
  unfinished_ = {{"loss", step.loss}, {"lr", lr}, {"grad_norm", step.report.grad_norm}};
  if (step.auxiliary != 0) unfinished_.push_back({"auxiliary_loss", step.auxiliary});
  if (step.report.skipped) unfinished_.push_back({"skipped", 1});
  if (step.report.skipped) tell(fmt::format("step {} moved nothing: {}", step_, step.not_finite));
  finish_step(metrics);
  skipped_ = step.report.skipped ? skipped_ + 1 : 0;
  if (skipped_ == kMostSkipped) give_up_on(step);
}

/// What comes after a step. Where it is interrupted, a run that goes on begins here.
void Training::finish_step(MetricsLog& metrics) {
  const auto value_of = [this](std::string_view name) {
    const auto it =
        std::find_if(unfinished_.begin(), unfinished_.end(), [&](const Metric& m) { return m.name == name; });
    return it != unfinished_.end() ? it->value : 0.0;
  };
  std::vector<Metric> line = unfinished_;
  const bool is_last = step_ == c_.train.steps, is_skipped = value_of("skipped") > 0;
  const bool validates = held_out() != nullptr && (is_last || is_due(c_.log.validate_every));
  if (validates) {
    const std::vector<Metric> found = validate();
    line.insert(line.end(), found.begin(), found.end());
  }
  const double speed = line_seconds_ > 0 ? static_cast<double>(line_tokens_) / line_seconds_ : 0;
  if (speed > 0) line.push_back({"tokens_per_s", speed});
  if (run_.show) {
    run_.show({step_, c_.train.steps, loss_, value_of("lr"), value_of("grad_norm"), speed,
               speed * training_flops_per_token(model().config()), val_loss_});
  }
  if (is_due(c_.log.sample_every)) sample();
  if (is_due(c_.log.every) || is_last || validates || is_skipped) {
    metrics.write(step_, line);
    line_tokens_ = 0;
    line_seconds_ = 0;
  }
  unfinished_.clear();
  if (is_due(c_.log.save_every)) save();
}

/// Parameters from which no batch gives finite values stay as they are for ever.
void Training::give_up_on(const Learner::Step& step) {
  if (saved_ != step_) save();
  throw BadInput(c_.out, "{} steps in a row moved nothing, the last because {}; a lower learning rate may help",
                 skipped_, step.not_finite);
}

std::vector<Metric> Training::validate() {
  const Dataset& data = *held_out();
  const std::int64_t all = data.validation_batches();
  const std::int64_t n = c_.log.validate_batches > 0 ? std::min(all, c_.log.validate_batches) : all;
  double nats = 0;
  std::int64_t tokens = 0;
  try {
    for (std::int64_t i = 0; i < n; ++i) {
      const Batch batch = data.validation_batch(i);
      nats += learner_.score(batch);
      tokens += batch.n_counted();
    }
  } catch (const NotFinite& e) {
    tell(fmt::format("step {}: no validation: {}", step_, e.what()));
    nats = std::numeric_limits<double>::quiet_NaN();
    tokens = 1;
  }
  val_loss_ = nats / static_cast<double>(tokens);
  validated_ = step_;
  const TokenShards& from = held_out_ ? *held_out_shards_ : shards_;
  const double tokens_a_byte = static_cast<double>(from.tokens()) / static_cast<double>(from.text_bytes());
  return {{"val_loss", *val_loss_}, {"val_bits_per_byte", *val_loss_ / std::log(2.0) * tokens_a_byte}};
}

void Training::sample() {
  GenerateContext context{&model(), &pool_, &kernels_, tokenizer_.get()};
  context.interrupt = run_.interrupt;
  GenerateRequest request;
  request.prompt = prompt_;
  request.max_tokens =
      std::min(c_.log.sample_tokens, model().config().max_seq_len - static_cast<std::int64_t>(prompt_.size()));
  request.seed = c_.train.seed;
  request.stop_ids = tokenizer_->stop_ids();
  try {
    const std::string text = c_.log.sample_prompt + generate(context, std::span(&request, 1)).front().text;
    folder_.write_sample(step_, text);
    if (run_.show_text) run_.show_text(text);
  } catch (const NotFinite& e) {
    tell(fmt::format("step {}: no sample: {}", step_, e.what()));
  }
}

void Training::save() {
  TrainerState state;
  state.step = step_;
  state.optimizer_steps = optimizer_.steps();
  state.loss = loss_;
  if (validated_ == step_) state.val_loss = val_loss_;
  state.isa = name_of(kernels_.isa);
  state.build = run_.build;
  state.words = words_of(c_, shards_, data_);
  for (const Metric& metric : unfinished_) state.unfinished[metric.name] = metric.value;
  folder_.save(start_.trainable, start_.files, optimizer_, state, c_.log.keep_last, pool_);
  saved_ = step_;
}

}  // namespace

TrainResult train(const TrainConfig& config, const TrainRun& run) { return Training(config, run).run(); }

}  // namespace vitrine
