#include "train/dictionary/dictionary_learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/exchanged.h"
#include "base/math.h"
#include "ops/decode_features.h"
#include "ops/feature_scaling.h"
#include "ops/op_kind.h"
#include "pass/pass.h"

namespace vitrine {
namespace {

constexpr std::int64_t kGradientsAtOnce = 4096;  // of the gradients, set to zero at a time

}  // namespace

/// The terms of a loss, in the order of SAELens, and the derivative by the norm of each row of the decoder.
struct DictionaryLearner::Losses {
  std::vector<Metric> terms{};
  std::vector<double> by_norm{};

  double total() const {
    double sum = 0;
    for (const Metric& term : terms) sum += term.value;
    return sum;
  }
};

DictionaryLearner::DictionaryLearner(LearnedDictionary& dictionary, const OptimizerConfig& optimizer, ThreadPool& pool,
                                     const Kernels& kernels, const std::atomic<bool>* interrupt, CallerPoll* poll)
    : learned_(dictionary),
      optimizer_(optimizer, dictionary.params()),
      pool_(pool),
      kernels_(kernels),
      interrupt_(interrupt),
      poll_(poll),
      since_active_(static_cast<std::size_t>(dictionary.dictionary().d_sae())) {
  for (const TrainParam& param : dictionary.params()) gradients_.add(*param.param);
  if (dictionary.dictionary().subtracted.present()) gradients_.add(dictionary.dictionary().subtracted);
}

Pass DictionaryLearner::pass() {
  Pass p{{.pool = pool_,
          .kernels = kernels_,
          .arena = arena_,
          .interrupt = interrupt_,
          .compute = Compute::f32,
          .poll = poll_},
         {}};
  p.training.tape = &tape_;
  return p;
}

void DictionaryLearner::find_dead() {
  dead_.clear();
  const LearnedOptions& options = learned_.options();
  const bool has_loss = options.shape.architecture == LearnedArchitecture::jumprelu
                            ? options.l0.pre_act.has_value()
                            : has_top(options.shape.architecture) && options.aux_loss_coefficient > 0;
  const auto window = static_cast<float>(options.dead_feature_window);
  for (std::size_t i = 0; i < since_active_.size() && has_loss; ++i) {
    if (since_active_[i] > window) dead_.push_back(static_cast<std::int32_t>(i));
  }
}

DictionaryLearner::Step DictionaryLearner::forward_backward(const Tensor& x, const Tensor& y, std::int64_t step) {
  const ArenaScope scope(arena_);
  Step result;
  tape_.clear();  // the last pass may have thrown
  learned_.refresh(pool_, kernels_);
  const std::span<float> gradients = gradients_.values();
  pool_.parallel_for((std::ssize(gradients) + kGradientsAtOnce - 1) / kGradientsAtOnce, 16,
                     [&](std::int64_t begin, std::int64_t end, int) {
                       const auto first = begin * kGradientsAtOnce,
                                  last = std::min(end * kGradientsAtOnce, std::int64_t{std::ssize(gradients)});
                       std::fill(gradients.begin() + first, gradients.begin() + last, 0.0f);
                     });
  find_dead();
  const Dictionary& d = learned_.dictionary();
  const DictionaryShape& shape = learned_.options().shape;
  EncoderTraining training;
  if (shape.architecture == LearnedArchitecture::batchtopk) {
    training.n_of_batch = static_cast<std::int64_t>(shape.k * static_cast<double>(x.rows()));
  }
  training.thresholds = learned_.thresholds();
  training.bandwidth = training.thresholds != nullptr ? static_cast<float>(learned_.options().l0.bandwidth) : 0;
  training.reaches_input = learned_.options().l0.reaches_input;
  training.dead = dead_;
  if (has_top(shape.architecture)) training.n_dead = std::min(d.d_in() / 2, std::int64_t{std::ssize(dead_)});
  Pass p = pass();
  Losses losses;
  losses.by_norm.resize(static_cast<std::size_t>(d.d_sae()));
  try {
    Tensor z;
    {
      const Exchanged<Tape*> untaped(p.training.tape, nullptr);
      z = features_in(p, d, x);
    }
    const LearnedFeatures features = encode_learned(p, d, z, training);
    const std::array<DecoderTerm, 1> terms{{{&d.decoder, &d.decoder_factors, features.active}}};
    const Tensor r = decode_features(p, d, terms, x.rows());
    if (!d.scaling.is_identity() && d.scaling.is_undone) tape_.record("input", {}, x, [] {});
    const Tensor out = features_out(p, d, r, x), error = p.tensor(out.shape);
    add_mse(p, out, y, error, losses);
    if (shape.architecture == LearnedArchitecture::standard) add_l1(p, features, step, losses);
    if (shape.architecture == LearnedArchitecture::jumprelu) add_l0(p, features, step, losses);
    if (learned_.options().l0.pre_act) add_pre_act(p, features.dead, losses);
    if (has_top(shape.architecture)) add_auxiliary(p, features.dead, error, losses);
    tape_.unwind();
    add_norm_gradient(losses.by_norm);
    note_active(features, result);
  } catch (const NotFinite& e) {
    result.skipped = e.what();
  }
  result.loss = losses.total();
  result.terms.insert(result.terms.begin(), losses.terms.begin(), losses.terms.end());
  if (result.skipped.empty() && !std::isfinite(result.loss)) result.skipped = "its loss is not finite";
  if (!result.skipped.empty()) {
    result.loss = result.grad_norm = std::numeric_limits<double>::quiet_NaN();
    result.terms.clear();
  }
  return result;
}

/// Also sets error = y − out.
void DictionaryLearner::add_mse(Pass& p, const Tensor& out, const Tensor& y, const Tensor& error, Losses& losses) {
  const std::int64_t n = out.row_size();
  const float factor = -2 / static_cast<float>(out.rows());
  const Tensor dout = p.grad(out);
  std::vector<double> squares(static_cast<std::size_t>(out.rows()));
  p.for_rows(out.rows(), 4 * n, [&](std::int64_t t) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      error.row(t)[i] = y.row(t)[i] - out.row(t)[i];
      sum += static_cast<double>(error.row(t)[i]) * error.row(t)[i];
      dout.row(t)[i] += factor * error.row(t)[i];
    }
    squares[static_cast<std::size_t>(t)] = sum;
  });
  double sum = 0;
  for (const double own : squares) sum += own;
  losses.terms.push_back({"mse_loss", sum / static_cast<double>(out.rows())});
}

void DictionaryLearner::add_l1(Pass& p, const LearnedFeatures& features, std::int64_t step, Losses& losses) {
  const L1Options& l1 = learned_.options().l1;
  const std::span<const float> norms = learned_.norms();
  const double rows = static_cast<double>(features.counts.rows()), power = l1.lp_norm;
  const double factor = l1.coefficient.at(step) / rows;
  std::vector<double> sums(static_cast<std::size_t>(features.counts.rows()));
  for_elements(features.active, [&](std::int64_t, std::size_t t, const SparseValue& at) {
    const double weighted = static_cast<double>(at.value) * norms[static_cast<std::size_t>(at.index)];
    sums[t] += power == 1 ? weighted : math::pow(weighted, power);
  });
  double loss = 0;
  for (double& sum : sums) {
    if (power != 1) sum = math::pow(sum, 1 / power);
    loss += factor * sum;
  }
  const Tensor da = p.grad(features.active.values);
  for_elements(features.active, [&](std::int64_t number, std::size_t t, const SparseValue& at) {
    const auto i = static_cast<std::size_t>(at.index);
    const double weighted = static_cast<double>(at.value) * norms[i];
    const double slope = factor * (power == 1 || sums[t] == 0 ? 1 : math::pow(weighted / sums[t], power - 1));
    da.data[number] += static_cast<float>(slope * norms[i]);
    losses.by_norm[i] += slope * at.value;
  });
  losses.terms.push_back({"l1_loss", loss});
}

void DictionaryLearner::add_l0(Pass& p, const LearnedFeatures& features, std::int64_t step, Losses& losses) {
  const L0Options& l0 = learned_.options().l0;
  const std::int64_t rows = features.counts.rows();
  const double factor = l0.coefficient.at(step) / static_cast<double>(rows);
  double loss = 0;
  if (l0.mode == L0Options::Mode::tanh) {
    const std::span<const float> norms = learned_.norms();
    const Tensor da = p.grad(features.active.values);
    for_elements(features.active, [&](std::int64_t number, std::size_t, const SparseValue& at) {
      const auto i = static_cast<std::size_t>(at.index);
      const double value = math::tanh(l0.tanh_scale * at.value * norms[i]);
      const double slope = factor * l0.tanh_scale * (1 - value * value);
      loss += factor * value;
      da.data[number] += static_cast<float>(slope * norms[i]);
      losses.by_norm[i] += slope * at.value;
    });
  } else {
    const Tensor dcounts = p.grad(features.counts);
    const bool is_quadratic = l0.mode == L0Options::Mode::quadratic;
    for (std::int64_t t = 0; t < rows; ++t) {
      const double n = features.counts.data[t], above = n - l0.target;
      loss += factor * (is_quadratic ? 2 / l0.target * above * above : n);
      dcounts.data[t] += static_cast<float>(factor * (is_quadratic ? 4 / l0.target * above : 1));
    }
  }
  losses.terms.push_back({"l0_loss", loss});
}

void DictionaryLearner::add_pre_act(Pass& p, const Features& dead, Losses& losses) {
  double loss = 0;
  if (!dead_.empty()) {
    const std::span<const float> norms = learned_.norms();
    const float* const thresholds = learned_.dictionary().selection.thresholds.data();
    const double factor = *learned_.options().l0.pre_act / static_cast<double>(dead.rows->rows.size());
    const Tensor dp = p.grad(dead.values), dthreshold = p.grad(*learned_.thresholds());
    for_elements(dead, [&](std::int64_t number, std::size_t, const SparseValue& at) {
      const auto i = static_cast<std::size_t>(at.index);
      const double below = static_cast<double>(thresholds[i]) - at.value;
      loss += factor * below * norms[i];
      dp.data[number] -= static_cast<float>(factor * norms[i]);
      dthreshold.data[i] += static_cast<float>(factor * norms[i]);
      losses.by_norm[i] += factor * below;
    });
  }
  losses.terms.push_back({"pre_act_loss", loss});
}

/// The error is a constant here.
void DictionaryLearner::add_auxiliary(Pass& p, const Features& dead, const Tensor& error, Losses& losses) {
  double loss = 0;
  if (!dead_.empty()) {
    const Dictionary& d = learned_.dictionary();
    const double n_dead = static_cast<double>(dead_.size());
    const double scale = std::min(n_dead / static_cast<double>(d.d_in() / 2), 1.0);
    const double factor = learned_.options().aux_loss_coefficient * scale / static_cast<double>(error.rows());
    const Tensor r = decode_without_bias(p, d, {&d.decoder, &d.decoder_factors, dead}, error.rows());
    const Tensor dr = p.grad(r);
    std::vector<double> squares(static_cast<std::size_t>(error.rows()));
    p.for_rows(error.rows(), 4 * error.row_size(), [&](std::int64_t t) {
      for (std::int64_t i = 0; i < error.row_size(); ++i) {
        const double difference = static_cast<double>(r.row(t)[i]) - error.row(t)[i];
        squares[static_cast<std::size_t>(t)] += difference * difference;
        dr.row(t)[i] += static_cast<float>(2 * factor * difference);
      }
    });
    for (const double own : squares) loss += factor * own;
  }
  losses.terms.push_back({"auxiliary_reconstruction_loss", loss});
}

/// d ‖W_dec[i]‖ / d W_dec[i] = W_dec[i] / ‖W_dec[i]‖. Also adds the gradient of b_dec as it is subtracted.
void DictionaryLearner::add_norm_gradient(const std::vector<double>& by_norm) {
  const Dictionary& d = learned_.dictionary();
  const std::span<const float> norms = learned_.norms();
  const Tensor dw = gradients_.of(d.decoder), db = gradients_.of(d.decoder_bias);
  const float* const decoder = learned_.params()[2].value;
  const std::int64_t n = d.d_out();
  for (std::int64_t i = 0; i < d.d_sae(); ++i) {
    const auto own = static_cast<std::size_t>(i);
    if (by_norm[own] == 0 || norms[own] == 0) continue;
    kernels_.add_scaled(decoder + i * n, n, static_cast<float>(by_norm[own] / norms[own]), dw.row(i));
  }
  if (d.subtracted.present()) kernels_.add(db.data, gradients_.of(d.subtracted).data, n, db.data);
}

void DictionaryLearner::note_active(const LearnedFeatures& features, Step& result) {
  active_.assign(since_active_.size(), false);
  least_value_.reset();
  double count = 0;
  for_elements(features.active, [&](std::int64_t, std::size_t, const SparseValue& at) {
    if (at.value == 0) return;
    active_[static_cast<std::size_t>(at.index)] = true;
    if (!least_value_ || at.value < *least_value_) least_value_ = at.value;
    ++count;
  });
  result.terms.push_back({"l0", count / static_cast<double>(features.counts.rows())});
}

void DictionaryLearner::update(Step& step, double lr) {
  if (!step.skipped.empty()) return;
  const StepReport report = optimizer_.step(pool_, kernels_, learned_.params(), gradients_, lr);
  step.grad_norm = report.grad_norm;
  step.skipped = report.why_skipped();
  if (report.skipped) return;
  std::int64_t n_dead = 0;
  for (std::size_t i = 0; i < since_active_.size(); ++i) {
    since_active_[i] = active_[i] ? 0 : since_active_[i] + 1;
    n_dead += since_active_[i] > static_cast<float>(learned_.options().dead_feature_window) ? 1 : 0;
  }
  step.terms.push_back({"dead", static_cast<double>(n_dead)});
  if (learned_.options().shape.architecture != LearnedArchitecture::batchtopk) return;
  if (least_value_) {
    const double rate = learned_.options().topk_threshold_lr;
    learned_.topk_threshold = (1 - rate) * learned_.topk_threshold + rate * *least_value_;
  }
  step.terms.push_back({"topk_threshold", learned_.topk_threshold});
}

}  // namespace vitrine
