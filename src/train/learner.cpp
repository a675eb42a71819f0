#include "train/learner.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "train/score_pieces.h"

namespace vitrine {
namespace {

/// Some whole samples of a batch.
struct Part {
  std::vector<Segment> segments, sources;
  std::span<const std::int32_t> inputs, targets, source_ids;
  std::vector<float> weights;
  std::size_t first_piece = 0;

  Tokens tokens() const { return {inputs, {}, source_ids}; }
};

/// Part number `i` of `n`: the pieces in equal parts of the rows, or of the pairs.
Part part_of(const Batch& batch, std::int64_t i, std::int64_t n) {
  const bool has_sources = !batch.source_pieces.empty();
  const bool by_piece = has_sources || batch.is_ragged;
  const auto n_rows = static_cast<std::int64_t>(batch.inputs.size());
  const auto n_pieces = static_cast<std::int64_t>(batch.pieces.size());
  const auto is_in_part = [&](std::int64_t piece) {
    if (by_piece) return piece * n / n_pieces == i;
    return batch.pieces[static_cast<std::size_t>(piece)].first_row / (n_rows / n) == i;
  };
  Part part;
  std::int64_t rows = 0, source_rows = 0, first = 0, first_source = 0;
  for (std::int64_t piece = 0; piece < n_pieces; ++piece) {
    if (!is_in_part(piece)) continue;
    const Batch::Piece& own = batch.pieces[static_cast<std::size_t>(piece)];
    if (rows == 0) {
      first = own.first_row;
      part.first_piece = static_cast<std::size_t>(piece);
    }
    part.segments.push_back({rows, own.length});
    rows += own.length;
    if (!has_sources) continue;
    const Batch::Piece& source = batch.source_pieces[static_cast<std::size_t>(piece)];
    if (source_rows == 0) first_source = source.first_row;
    part.segments.back().source = static_cast<int>(part.sources.size());
    part.sources.push_back({source_rows, source.length});
    source_rows += source.length;
  }
  const auto begin = static_cast<std::size_t>(first), count = static_cast<std::size_t>(rows);
  part.inputs = std::span(batch.inputs).subspan(begin, count);
  part.targets = std::span(batch.targets).subspan(begin, count);
  part.weights.assign(batch.counts.begin() + first, batch.counts.begin() + first + rows);
  part.source_ids =
      std::span(batch.sources).subspan(static_cast<std::size_t>(first_source), static_cast<std::size_t>(source_rows));
  return part;
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

std::vector<PairScore> Learner::score_answers(const Batch& batch, bool with_adapter) {
  return score_pairs(trainable_.model(), machine(), with_adapter ? trainable_.adapters() : AppliedAdapters{}, batch);
}

PairSums Learner::compare(const Batch& batch) {
  const std::vector<PairScore> scores = score_answers(batch, true);
  PairSums sums;
  for (std::size_t i = 0; i < scores.size(); ++i) sums.add(loss_of_pair(batch, i, scores[i]));
  return sums;
}

Learner::Step Learner::learn(const Batch& batch, std::int64_t step, const TapsOf& taps) {
  Step result;
  result.targets = batch.n_counted();
  if (result.targets == 0) {
    result.skipped = "no target of its batch counts";
  } else {
    try {
      learn_parts(batch, step, taps, result);
    } catch (const NotFinite& e) {
      result.skipped = e.what();
    }
  }
  if (!result.skipped.empty()) result.loss = result.grad_norm = std::numeric_limits<double>::quiet_NaN();
  return result;
}

void Learner::update(Step& step, double lr) {
  if (!step.skipped.empty()) return;
  std::vector<const float*> grads;
  for (const TrainParam& param : trainable_.params()) grads.push_back(gradients_.of(*param.param).data);
  const StepReport report = optimizer_.step(pool_, kernels_, trainable_.params(), grads, lr);
  step.grad_norm = report.grad_norm;
  if (report.skipped) step.skipped = "the gradient of " + report.not_finite + " is not finite";
}

/// Computes the gradients and losses of all micro-batches.
void Learner::learn_parts(const Batch& batch, std::int64_t step, const TapsOf& taps, Step& result) {
  const auto n_pieces = static_cast<double>(batch.pieces.size());
  sum_.clear();
  double z_squares = 0, balance = 0, router_z = 0;
  for (std::int64_t i = 0; i < options_.micro_batches; ++i) {
    const Part part = part_of(batch, i, options_.micro_batches);
    LossRequest loss{part.targets, part.weights, static_cast<float>(1.0 / static_cast<double>(result.targets))};
    LossResult found;
    loss.label_smoothing = static_cast<float>(options_.label_smoothing);
    loss.z_loss = static_cast<float>(options_.z_loss);
    loss.balance = static_cast<float>(options_.balance_loss);
    loss.balance_over_layers = options_.balance == StepOptions::Balance::hugging_face;
    loss.router_z = static_cast<float>(options_.router_z_loss);
    loss.router_scale = static_cast<float>(1.0 / n_pieces);
    if (preference_) {
      loss.scale = static_cast<float>(1.0 / static_cast<double>(batch.pairs.size()));
      // The gradient of a pair's loss is that of its answers' cross-entropies, each times a number.
      loss.weigh = [&](std::span<const double> nats) {
        std::vector<float> factors;
        for (std::size_t s = 0; s + 1 < nats.size(); s += 2) {
          const PairLoss pair = loss_of_pair(batch, (part.first_piece + s) / 2, {-nats[s], -nats[s + 1]});
          result.pairs.add(pair);
          factors.push_back(static_cast<float>(-pair.by_chosen));
          factors.push_back(static_cast<float>(-pair.by_rejected));
        }
        return factors;
      };
    }
    tape_.clear();  // the last pass may have thrown
    sum_.begin(pool_);
    Taps* const part_taps = taps ? taps(i) : nullptr;
    Pass pass{machine(), part.segments, {}, part_taps};
    pass.sources = part.sources;
    const Dropout dropout{static_cast<float>(options_.dropout), options_.seed, static_cast<std::uint32_t>(step),
                          static_cast<std::uint32_t>(i)};
    for (Segment& s : pass.segments) s.adapters = trainable_.adapters();
    for (Segment& s : pass.sources) s.adapters = trainable_.adapters();
    pass.training = {&tape_, &loss, &found, options_.recompute, dropout};
    pass.training.adapter_dropout = static_cast<float>(options_.adapter_dropout);
    if (part_taps == nullptr) pass.training.begin = begin_;  // taps may want any gradient
    trainable_.model().learn(pass, part.tokens());
    sum_.add(pool_, kernels_);
    result.loss += found.cross_entropy / static_cast<double>(result.targets);
    z_squares += found.z_squares / static_cast<double>(result.targets);
    balance += loss.balance_over_layers
                   ? found.balance_of_layers() * static_cast<double>(part.segments.size()) / n_pieces
                   : found.balance_sum / n_pieces;
    router_z += found.router_z_sum / n_pieces;
  }
  sum_.finish(pool_, kernels_);
  if (preference_) {
    result.loss = result.pairs.loss / static_cast<double>(result.pairs.n);
    if (!std::isfinite(result.loss)) result.skipped = "its loss is not finite";
  }
  result.auxiliary = options_.z_loss * z_squares + options_.balance_loss * balance + options_.router_z_loss * router_z;
}

double Learner::score(const Batch& batch) {
  const Part part = part_of(batch, 0, 1);
  LossRequest loss{part.targets, part.weights};
  LossResult found;
  Pass pass{machine(), part.segments};
  pass.sources = part.sources;
  for (Segment& s : pass.segments) s.adapters = trainable_.adapters();
  for (Segment& s : pass.sources) s.adapters = trainable_.adapters();
  pass.training = {nullptr, &loss, &found};
  trainable_.model().forward(pass, part.tokens());
  return found.cross_entropy;
}

}  // namespace vitrine
