#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "checkpoint/config_json.h"
#include "checkpoint/load.h"
#include "generate/generator.h"
#include "model/count.h"
#include "tokenizer/fingerprint.h"
#include "train/baselines.h"
#include "train/learner.h"
#include "train/memory.h"
#include "train/metrics.h"
#include "train/run_folder.h"
#include "train/tapped_step.h"

namespace vitrine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostBaselineTokens = 20'000'000;  // of training, at 45 bytes each

/// What a run starts from: parameters, and what its checkpoints hold beside them.
struct Start {
  Trainable trainable;
  ModelFiles files;
};

Start start_from(const TrainConfig& c, const std::string& checkpoint, ThreadPool& pool, const Kernels& k) {
  if (checkpoint.empty()) {
    const Family& family = family_of(c.model.config, c.model.where);
    const ModelConfig model = read_model_config(family, c.model.config, c.model.where);
    return {draw_trainable(model, c.train.dtype, c.model.init, c.train.seed, pool, k),
            {family, c.model.config, c.data.tokenizer}};
  }
  const Checkpoint loaded = load_checkpoint(checkpoint);
  const std::string path = checkpoint + "/config.json";
  if (loaded.table == nullptr || !std::filesystem::exists(path)) {
    throw Unsupported(checkpoint, "expected a Hugging Face folder to go on from, got a {}", loaded.description);
  }
  const Json config = read_json_file(path);
  const std::string tokenizer = c.data.tokenizer.empty() ? loaded.tokenizer_path : c.data.tokenizer;
  return {copy_trainable(*loaded.model, c.train.dtype, pool, k), {family_of(config, path), config, tokenizer}};
}

/// What the steps depend on: another value would be another run.
Json words_of(const TrainConfig& c) {
  return {{"batch", c.train.batch},
          {"micro_batches", c.train.micro_batches},
          {"seq_len", c.train.seq_len},
          {"seed", c.train.seed},
          {"dtype", std::string(name_of(c.train.dtype))},
          {"mask_documents", c.data.mask_documents}};
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
    open_tokenizer();
    if (resumed_) resume();
  }

  TrainResult run() {
    tell_plan();
    MetricsLog metrics(c_.out, step_);
    if (step_ == 0) log_baselines(metrics);
    line_begun_ = Clock::now();
    try {
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
    if (steps.empty()) return {};
    return steps.back();
  }

  void resume();
  void open_tokenizer();
  void tell_plan() const;
  void log_baselines(MetricsLog& metrics);
  void one_step(MetricsLog& metrics);
  Learner::Step learn(double lr);
  void log_line(MetricsLog& metrics, const Learner::Step& step, double lr);
  double validate();
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
  std::optional<double> val_loss_;
  std::int64_t line_tokens_ = 0;  // since the last line of metrics
  Clock::time_point line_begun_;
};

void Training::resume() {
  const TrainerState state = folder_.read_state(*resumed_);
  const Json words = words_of(c_);
  for (const auto& [key, value] : words.items()) {
    const auto it = state.config.find(key);
    if (it != state.config.end() && *it == value) continue;
    throw BadInput(c_.out, "the run was begun with {} = {}, the config says {}: it cannot go on as the same run", key,
                   it != state.config.end() ? it->dump() : "nothing", value.dump());
  }
  folder_.read_arrays(*resumed_, start_.trainable, optimizer_);
  start_.trainable.round_weights(pool_, kernels_);
  optimizer_.set_steps(state.optimizer_steps);
  step_ = saved_ = state.step;
  loss_ = state.loss;
  val_loss_ = state.val_loss;
  tell(fmt::format("going on from step {} of {}", step_, folder_.checkpoint(step_)));
  if (state.isa != name_of(kernels_.isa) || state.build != run_.build) {
    tell(fmt::format("the checkpoint was written by {} with {} instructions, this is {} with {}: bits may differ",
                     state.build, state.isa, run_.build, name_of(kernels_.isa)));
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
}

void Training::tell_plan() const {
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
  const auto parts =
      training_memory(config, {t.batch / t.micro_batches, t.seq_len, t.dtype, c_.optimizer.kind, t.recompute});
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
  const bool writes = !c_.log.writes.empty();
  const bool looks = c_.log.taps_every > 0 && (step_ + 1) % c_.log.taps_every == 0;
  if (!writes && !looks) return learner_.step(batch, step_, lr);
  TappedStep taps(c_.log, model().config(),
                  looks ? folder_.file(fmt::format("taps/step-{:06}.safetensors", step_ + 1)) : "");
  const Learner::Step step = learner_.step(batch, step_, lr, &taps.recorder());
  taps.commit();
  return step;
}

void Training::one_step(MetricsLog& metrics) {
  if (run_.interrupt != nullptr && run_.interrupt->load()) throw Interrupted();
  const double lr = learning_rate(c_.schedule, step_);
  const Learner::Step step = learn(lr);
  ++step_;
  loss_ = step.loss;
  line_tokens_ += c_.train.batch * c_.train.seq_len;
  if (step.report.skipped) {
    tell(fmt::format("step {}: the gradient of {} is not finite, nothing was changed", step_, step.report.not_finite));
  }
  const bool is_last = step_ == c_.train.steps;
  const bool validates = held_out() != nullptr && (is_last || is_due(c_.log.validate_every));
  if (validates) val_loss_ = validate();
  const double s = std::chrono::duration<double>(Clock::now() - line_begun_).count();
  const double speed = static_cast<double>(line_tokens_) / std::max(s, 1e-9);
  if (run_.show) {
    run_.show({step_, c_.train.steps, loss_, lr, step.report.grad_norm, speed,
               speed * training_flops_per_token(model().config()), val_loss_});
  }
  if (is_due(c_.log.every) || is_last || validates || step.report.skipped) {
    std::vector<Metric> line = {
        {"loss", step.loss}, {"lr", lr}, {"grad_norm", step.report.grad_norm}, {"tokens_per_s", speed}};
    if (step.auxiliary != 0) line.push_back({"auxiliary_loss", step.auxiliary});
    if (step.report.skipped) line.push_back({"skipped", 1});
    if (validates) {
      const TokenShards& from = held_out_ ? *held_out_shards_ : shards_;
      line.push_back({"val_loss", *val_loss_});
      line.push_back({"val_bits_per_byte", *val_loss_ / std::log(2.0) * static_cast<double>(from.tokens()) /
                                               static_cast<double>(from.text_bytes())});
    }
    metrics.write(step_, line);
    line_tokens_ = 0;
    line_begun_ = Clock::now();
  }
  if (is_due(c_.log.sample_every)) sample();
  if (is_due(c_.log.save_every)) save();
}

double Training::validate() {
  const Dataset& data = *held_out();
  const std::int64_t all = data.validation_batches();
  const std::int64_t n = c_.log.validate_batches > 0 ? std::min(all, c_.log.validate_batches) : all;
  double nats = 0;
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const Batch batch = data.validation_batch(i);
    nats += learner_.score(batch);
    tokens += batch.n_counted();
  }
  return nats / static_cast<double>(tokens);
}

void Training::sample() {
  GenerateContext context{&model(), &pool_, &kernels_, tokenizer_.get()};
  context.interrupt = run_.interrupt;
  GenerateRequest request;
  request.prompt = tokenizer_->encode(c_.log.sample_prompt, SpecialTokens::apply);
  if (request.prompt.empty() && shards_.info().document_token) request.prompt = {*shards_.info().document_token};
  if (request.prompt.empty()) request.prompt = {0};
  request.max_tokens =
      std::min(c_.log.sample_tokens, model().config().max_seq_len - static_cast<std::int64_t>(request.prompt.size()));
  request.seed = c_.train.seed;
  request.stop_ids = tokenizer_->stop_ids();
  const std::string text = c_.log.sample_prompt + generate(context, std::span(&request, 1)).front().text;
  std::ofstream(folder_.file("samples.txt"), std::ios::app) << "step " << step_ << "\n" << text << "\n\n";
  if (run_.show_text) run_.show_text(text);
}

void Training::save() {
  TrainerState state{step_,      optimizer_.steps(), loss_, val_loss_, std::string(name_of(kernels_.isa)),
                     run_.build, words_of(c_)};
  folder_.save(start_.trainable, start_.files, optimizer_, state, c_.log.keep_last, pool_);
  saved_ = step_;
}

}  // namespace

TrainResult train(const TrainConfig& config, const TrainRun& run) { return Training(config, run).run(); }

}  // namespace vitrine
