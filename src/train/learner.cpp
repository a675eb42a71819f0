#include "train/learner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/fingerprint.h"
#include "train/score_pieces.h"

namespace vitrine {
namespace {

/// A number that differs for batches that differ.
std::uint64_t fingerprint_of(const Batch& batch) {
  Fingerprint f;
  f.add(std::as_bytes(std::span(batch.inputs)));
  f.add(std::as_bytes(std::span(batch.targets)));
  f.add(std::as_bytes(std::span(batch.counts)));
  f.add(std::as_bytes(std::span(batch.sources)));
  f.add(std::as_bytes(std::span(batch.pairs)));
  f.add(std::as_bytes(std::span(batch.types)));
  for (const Batch::Example& example : batch.examples) f.add(std::as_bytes(std::span(example.labels)));
  return f.value();
}

}  // namespace

Learner::Learner(const Trainable& trainable, Optimizer& optimizer, const StepOptions& options, ThreadPool& pool,
                 const Kernels& kernels, const std::atomic<bool>* interrupt, CallerPoll* poll)
    : trainable_(trainable),
      optimizer_(optimizer),
      options_(options),
      pool_(pool),
      kernels_(kernels),
      interrupt_(interrupt),
      poll_(poll),
      tape_(gradients_),
      begin_(trainable.first_learning_block()) {
  for (const TrainParam& param : trainable.params()) gradients_.add(*param.param);
  for (const TrainParam& buffer : trainable.buffers()) {
    if (options.router_bias_rate == 0 || !is_correction(buffer.name)) continue;
    corrections_.push_back(buffer);
    choices_.resize(choices_.size() + static_cast<std::size_t>(buffer.count()));
  }
}

void Learner::share(Ranks& ranks, Shard shard, const std::string& data) {
  if (ranks.is_alone()) return;
  const SharedWork work{trainable_, optimizer_, gradients_, sum_, pool_, kernels_};
  shared_.emplace(ranks, shard, work, options_.micro_batches, data);
}

void Learner::prefer(const PreferenceOptions& options, std::vector<PairScore> references) {
  preference_ = options;
  references_ = std::move(references);
}

PairLoss Learner::loss_of_pair(const Batch& batch, std::size_t pair, const PairScore& score) const {
  const auto number = static_cast<std::size_t>(batch.pairs[pair]);
  const PairScore reference = references_.empty() ? PairScore{} : references_[number];
  return pair_loss(*preference_, score, reference, lengths_of(batch, pair));
}

std::vector<PairScore> Learner::score_answers(const Batch& batch, bool with_adapter, BlockEvents* events) {
  Modifiers modifiers;
  if (with_adapter) modifiers.adapters = trainable_.adapters();
  return score_pairs(trainable_.model(), machine(), modifiers, batch, events);
}

PairSums Learner::compare(const Batch& batch, BlockEvents* events) {
  const std::vector<PairScore> scores = score_answers(batch, true, events);
  PairSums sums;
  for (std::size_t i = 0; i < scores.size(); ++i) sums.add(loss_of_pair(batch, i, scores[i]));
  return sums;
}

Learner::Step Learner::forward_backward(const Batch& batch, std::int64_t step, const TapsOf& taps) {
  Step result;
  result.targets = batch.n_counted();
  if (result.targets == 0) {
    result.skipped = "no target of its batch counts";
  } else {
    StepLosses losses;
    losses.parts.resize(static_cast<std::size_t>(options_.micro_batches));
    losses.pairs.resize(batch.pairs.size());
    losses.choices.resize(losses.parts.size() * choices_.size());
    if (texts_) result.skipped = compare_texts(batch, step, losses);
    if (result.skipped.empty()) {
      result.skipped = backward_parts(batch, step, taps, static_cast<double>(result.targets), losses);
    }
    if (result.skipped.empty()) add_losses(losses, result);
    add_choices(losses);
  }
  if (!result.skipped.empty()) result.loss = result.grad_norm = std::numeric_limits<double>::quiet_NaN();
  return result;
}

void Learner::update(Step& step, double lr) {
  if (!step.skipped.empty()) return;
  const StepReport report = optimizer_.step(pool_, kernels_, trainable_.params(), gradients_, lr);
  step.grad_norm = report.grad_norm;
  step.skipped = report.why_skipped();
  if (report.skipped) return;
  move_corrections();
  if (shared_) shared_->share_weights();
}

/// Notes how often micro-batch number `number` has chosen each expert.
void Learner::count_choices(const LossResult& found, std::int64_t number, StepLosses& losses) const {
  auto at = losses.choices.begin() + number * static_cast<std::ptrdiff_t>(choices_.size());
  for (const TrainParam& correction : corrections_) {
    const auto counts = found.choices_of.find(correction.param);
    if (counts != found.choices_of.end()) std::copy(counts->second.begin(), counts->second.end(), at);
    at += correction.count();
  }
}

void Learner::add_choices(const StepLosses& losses) {
  std::fill(choices_.begin(), choices_.end(), 0);
  for (std::size_t i = 0; i < losses.choices.size(); ++i) choices_[i % choices_.size()] += losses.choices[i];
}

/// Experts with fewer tokens than the mean are chosen more readily from now on, those with more less (Wang et al.
/// 2024, Auxiliary-Loss-Free Load Balancing).
void Learner::move_corrections() const {
  const auto rate = static_cast<float>(options_.router_bias_rate);
  auto own = choices_.begin();
  for (const TrainParam& correction : corrections_) {
    const std::int64_t n = correction.count(), total = std::accumulate(own, own + n, std::int64_t{0});
    for (std::int64_t e = 0; e < n; ++e) {
      const std::int64_t above = own[e] * n - total;
      if (above != 0) correction.value[e] += above < 0 ? rate : -rate;
    }
    own += n;
  }
}

/// The pass of a micro-batch, without a tape.
Pass Learner::pass_of(const BatchPart& part, std::int64_t step, std::int64_t number, BlockEvents* events) {
  Pass pass{machine(), part.segments};
  pass.sources = part.sources;
  for (Segment& s : pass.segments) s.modifiers.adapters = trainable_.adapters();
  for (Segment& s : pass.sources) s.modifiers.adapters = trainable_.adapters();
  pass.training.dropout = {static_cast<float>(options_.dropout), options_.seed, static_cast<std::uint32_t>(step),
                           static_cast<std::uint32_t>(number)};
  pass.training.adapter_dropout = static_cast<float>(options_.adapter_dropout);
  pass.training.blocks = events;
  return pass;
}

/// Adds the gradient of a micro-batch to the gradients, and computes its losses.
void Learner::backward_part(const Batch& batch, std::int64_t step, std::int64_t number, const TapsOf& taps,
                            double n_targets, StepLosses& losses, BlockEvents* events) {
  const auto n_pieces = static_cast<double>(batch.pieces.size());
  const BatchPart part = part_of(batch, number, options_.micro_batches);
  LossRequest loss{part.targets, part.weights, static_cast<float>(1.0 / n_targets)};
  LossResult found;
  loss.label_smoothing = static_cast<float>(options_.label_smoothing);
  loss.z_loss = static_cast<float>(options_.z_loss);
  loss.balance = static_cast<float>(options_.balance_loss);
  loss.balance_over_layers = options_.balance == StepOptions::Balance::hugging_face;
  loss.counts_choices = !corrections_.empty();
  loss.router_z = static_cast<float>(options_.router_z_loss);
  loss.router_scale = static_cast<float>(1.0 / n_pieces);
  if (preference_) {
    loss.scale = static_cast<float>(1.0 / static_cast<double>(batch.pairs.size()));
    // The gradient of a pair's loss is that of its answers' cross-entropies, each times a number.
    loss.weigh = [&](std::span<const double> nats) {
      std::vector<float> factors;
      for (std::size_t s = 0; s + 1 < nats.size(); s += 2) {
        const std::size_t number_of_pair = (part.first_piece + s) / 2;
        const PairLoss pair = loss_of_pair(batch, number_of_pair, {-nats[s], -nats[s + 1]});
        losses.pairs[number_of_pair] = pair;
        factors.push_back(static_cast<float>(-pair.by_chosen));
        factors.push_back(static_cast<float>(-pair.by_rejected));
      }
      return factors;
    };
  }
  tape_.clear();  // the last pass may have thrown
  Pass pass = pass_of(part, step, number, events);
  pass.taps = taps ? taps(number) : nullptr;
  pass.training.tape = &tape_;
  pass.training.recompute = options_.recompute;
  if (pass.taps == nullptr) pass.training.begin = begin_;  // taps may want any gradient
  if (texts_) return backward_texts(batch, part, number, pass, losses);
  pass.training.loss = &loss;
  pass.training.result = &found;
  trainable_.model().forward_backward(pass, part.tokens());
  Losses& own = losses.parts[static_cast<std::size_t>(number)];
  own.cross_entropy = found.cross_entropy / n_targets;
  own.z_squares = found.z_squares / n_targets;
  own.balance = loss.balance_over_layers
                    ? found.balance_of_layers() * static_cast<double>(part.segments.size()) / n_pieces
                    : found.balance_sum / n_pieces;
  own.router_z = found.router_z_sum / n_pieces;
  count_choices(found, number, losses);
}

/// Computes the gradients and losses of all micro-batches. Returns why the step is skipped, or "".
std::string Learner::backward_parts(const Batch& batch, std::int64_t step, const TapsOf& taps, double n_targets,
                                    StepLosses& losses) {
  SharedSteps::Failure failure;
  const auto backward = [&](std::int64_t number, BlockEvents* events) {
    if (!failure.why.empty()) return;
    try {
      backward_part(batch, step, number, taps, n_targets, losses, events);
    } catch (const NotFinite& e) {
      failure = {number, e.what()};
    }
  };
  if (shared_) {
    shared_->forward_backward(backward);
    shared_->gather(losses.parts);
    shared_->gather(losses.pairs);
    shared_->gather(losses.choices);
    return shared_->complete(fingerprint_of(batch), failure);
  }
  sum_.clear();
  for (std::int64_t i = 0; i < options_.micro_batches && failure.why.empty(); ++i) {
    sum_.begin(pool_);
    backward(i, nullptr);
    sum_.add(pool_, kernels_);
  }
  sum_.finish(pool_, kernels_);
  return failure.why;
}

/// Adds the losses by their numbers.
void Learner::add_losses(const StepLosses& losses, Step& result) const {
  double z_squares = 0, balance = 0, router_z = 0;
  for (const Losses& part : losses.parts) {
    result.loss += part.cross_entropy;
    z_squares += part.z_squares;
    balance += part.balance;
    router_z += part.router_z;
  }
  if (losses.texts) result.loss = losses.texts->loss;
  if (preference_) {
    for (const PairLoss& pair : losses.pairs) result.pairs.add(pair);
    result.loss = result.pairs.loss / static_cast<double>(result.pairs.n);
  }
  if ((preference_ || texts_) && !std::isfinite(result.loss)) result.skipped = "its loss is not finite";
  result.auxiliary = options_.z_loss * z_squares + options_.balance_loss * balance + options_.router_z_loss * router_z;
}

double Learner::score(const Batch& batch, BlockEvents* events) {
  if (texts_) return score_texts(batch, events);
  const BatchPart part = part_of(batch, 0, 1);
  LossRequest loss{part.targets, part.weights};
  LossResult found;
  Pass pass{machine(), part.segments};
  pass.sources = part.sources;
  for (Segment& s : pass.segments) s.modifiers.adapters = trainable_.adapters();
  for (Segment& s : pass.sources) s.modifiers.adapters = trainable_.adapters();
  pass.training = {nullptr, &loss, &found};
  pass.training.blocks = events;
  trainable_.model().forward(pass, part.tokens());
  return found.cross_entropy;
}

}  // namespace vitrine
