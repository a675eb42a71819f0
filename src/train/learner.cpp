#include "train/learner.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace vitrine {
namespace {

/// Rows [first, first + n) of a batch: samples, which are whole.
struct Part {
  std::vector<Segment> segments;
  std::span<const std::int32_t> inputs, targets;
  std::vector<float> weights;
};

Part part_of(const Batch& batch, std::int64_t first, std::int64_t n) {
  Part part;
  const auto begin = static_cast<std::size_t>(first), count = static_cast<std::size_t>(n);
  part.inputs = std::span(batch.inputs).subspan(begin, count);
  part.targets = std::span(batch.targets).subspan(begin, count);
  part.weights.assign(batch.counts.begin() + first, batch.counts.begin() + first + n);
  for (const Batch::Piece& piece : batch.pieces) {
    if (piece.first_row < first || piece.first_row >= first + n) continue;
    part.segments.push_back({piece.first_row - first, piece.length, 0, nullptr});
  }
  return part;
}

}  // namespace

Learner::Learner(const Trainable& trainable, Optimizer& optimizer, const StepOptions& options, ThreadPool& pool,
                 const Kernels& kernels, const std::atomic<bool>* interrupt)
    : trainable_(trainable),
      optimizer_(optimizer),
      options_(options),
      pool_(pool),
      kernels_(kernels),
      interrupt_(interrupt),
      tape_(gradients_) {
  const Model& model = trainable.model();
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string&, const Shape&) {
    gradients_.add(param);
    grads_.push_back(gradients_.of(param).data);
  });
}

Learner::Step Learner::step(const Batch& batch, std::int64_t step, double lr, Taps* taps) {
  Step result;
  result.tokens = batch.n_counted();
  try {
    learn(batch, step, taps, result);
  } catch (const NotFinite& e) {
    result.loss = std::numeric_limits<double>::quiet_NaN();
    result.report.grad_norm = result.loss;
    result.report.skipped = true;
    result.not_finite = e.what();
    return result;
  }
  result.report = optimizer_.step(pool_, kernels_, trainable_.params(), grads_, lr);
  if (result.report.skipped) result.not_finite = "the gradient of " + result.report.not_finite + " is not finite";
  return result;
}

/// The gradients and losses of all micro-batches.
void Learner::learn(const Batch& batch, std::int64_t step, Taps* taps, Step& result) {
  const auto n_rows = static_cast<std::int64_t>(batch.inputs.size());
  const std::int64_t rows = n_rows / options_.micro_batches;
  const auto n_pieces = static_cast<double>(batch.pieces.size());
  gradients_.set_zero();
  double z_squares = 0, balance = 0, router_z = 0;
  for (std::int64_t i = 0; i < options_.micro_batches; ++i) {
    const Part part = part_of(batch, i * rows, rows);
    LossRequest loss{part.targets, part.weights, static_cast<float>(1.0 / static_cast<double>(result.tokens))};
    LossResult found;
    loss.label_smoothing = static_cast<float>(options_.label_smoothing);
    loss.z_loss = static_cast<float>(options_.z_loss);
    loss.balance = static_cast<float>(options_.balance_loss);
    loss.balance_over_layers = options_.balance == StepOptions::Balance::hugging_face;
    loss.router_z = static_cast<float>(options_.router_z_loss);
    loss.router_scale = static_cast<float>(1.0 / n_pieces);
    tape_.clear();  // the last pass may have been interrupted
    Pass pass{{pool_, kernels_, arena_, interrupt_}, part.segments, {}, taps};
    pass.training.tape = &tape_;
    pass.training.loss = &loss;
    pass.training.result = &found;
    pass.training.recompute = options_.recompute;
    pass.training.dropout = {static_cast<float>(options_.dropout), options_.seed, static_cast<std::uint32_t>(step),
                             static_cast<std::uint32_t>(i)};
    trainable_.model().learn(pass, part.inputs);
    result.loss += found.cross_entropy / static_cast<double>(result.tokens);
    z_squares += found.z_squares / static_cast<double>(result.tokens);
    balance += loss.balance_over_layers
                   ? found.balance_of_layers() * static_cast<double>(part.segments.size()) / n_pieces
                   : found.balance_sum / n_pieces;
    router_z += found.router_z_sum / n_pieces;
  }
  result.auxiliary = options_.z_loss * z_squares + options_.balance_loss * balance + options_.router_z_loss * router_z;
}

double Learner::score(const Batch& batch) {
  const auto n_rows = static_cast<std::int64_t>(batch.inputs.size());
  const Part part = part_of(batch, 0, n_rows);
  LossRequest loss{part.targets, part.weights};
  LossResult found;
  Pass pass{{pool_, kernels_, arena_, interrupt_}, part.segments};
  pass.training.loss = &loss;
  pass.training.result = &found;
  trainable_.model().forward(pass, part.inputs);
  return found.cross_entropy;
}

}  // namespace vitrine
