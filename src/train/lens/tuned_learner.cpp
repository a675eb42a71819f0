#include "train/lens/tuned_learner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/exchanged.h"
#include "data/dataset.h"
#include "inspect/text_pass.h"
#include "kernels/widen_row.h"

namespace vitrine {
namespace {

constexpr std::int64_t kLogitsAtOnce = std::int64_t{1} << 22;  // elements

}  // namespace

/// Rows of a text whose logits are computed together.
struct TunedLearner::Rows {
  std::vector<Tensor> states;         ///< `[n, d]`: before each layer, and after the last one.
  std::vector<std::int64_t> numbers;  ///< Rows of the pass.
};

TunedLearner::TunedLearner(const TrainConfig& config, const GenerateContext& context, IdLists lists)
    : c_(config), context_(context), lists_(std::move(lists)) {
  const ModelConfig& model = context.model->config();
  if (!model.has_head) throw Unsupported("lens", "the model has no head, so a tuned lens has nothing to learn from");
  stream_states(model, false);  // for its error
  add_layers();
  if (!c_.lens->start.empty()) copy(read_trained_lens(c_.lens->start, LensKind::tuned, model));
  optimizer_.emplace(c_.optimizer, params_);
  for (const TrainParam& param : params_) gradients_.add(*param.param);
}

/// Maps of zeros.
void TunedLearner::add_layers() {
  const ModelConfig& model = context_.model->config();
  const std::int64_t d = model.width_before(model.n_layers()), n = mapped_states(LensKind::tuned, model).n_maps;
  const auto aligned = [](std::int64_t count) {
    return (count + kParamAlignment - 1) / kParamAlignment * kParamAlignment;
  };
  memory_.resize(n * (aligned(d * d) + aligned(d)) * static_cast<std::int64_t>(sizeof(float)), "the maps of a lens");
  layers_.resize(static_cast<std::size_t>(n));
  float* value = memory_.floats();
  const auto add = [&](Param& param, const std::string& name, const Shape& shape) {
    param = {name, name, shape, view_of(value, shape.rank() > 1 ? d : 1, d, d)};
    params_.push_back({name, shape, value, nullptr, &param});
    value += aligned(shape.count());
  };
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const std::string name = fmt::format("layers.{}", layer);
    add(layers_[layer].weight, name, {d, d});
    add(layers_[layer].bias, name + ".bias", {d});
  }
}

void TunedLearner::copy(const TrainedLens& from) {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const LinearParams& map = from.layers[i / 2];
    const MatrixView& view = i % 2 == 0 ? map.weight.view : map.bias.view;
    for (std::int64_t r = 0; r < view.rows && view.data != nullptr; ++r) {
      widen_row(*context_.kernels, view, r, view.cols, params_[i].value + r * view.cols);
    }
  }
}

std::vector<std::string> TunedLearner::plan() const {
  return {fmt::format("tuned lens: {} layers of {}, {} lists of ids", layers_.size(), to_string(params_.front().shape),
                      lists_.size())};
}

/// The list at a place in the order of the run.
std::span<const std::int32_t> TunedLearner::list(std::int64_t place) const {
  const auto n = static_cast<std::uint64_t>(lists_.size()), at = static_cast<std::uint64_t>(place);
  const bool is_shuffled = c_.data.talk.is_shuffled;
  return lists_[static_cast<std::int64_t>(is_shuffled ? permuted(at % n, n, c_.train.seed, at / n) : at % n)];
}

StepLearner::Step TunedLearner::step(std::int64_t number) {
  tape_.clear();  // the last pass may have thrown
  std::ranges::fill(gradients_.values(), 0.0f);
  Step result;
  const std::int64_t first = number * c_.train.batch;
  for (std::int64_t i = 0; i < c_.train.batch; ++i) result.n_rows += std::ssize(list(first + i));
  const double factor = 1 / static_cast<double>(result.n_rows);
  std::vector<double> losses(layers_.size());
  try {
    for (std::int64_t i = 0; i < c_.train.batch; ++i) add_list(list(first + i), factor, losses);
  } catch (const NotFinite& e) {
    result.skipped = e.what();
  }
  for (const double loss : losses) result.loss += loss;
  if (result.skipped.empty() && !std::isfinite(result.loss)) result.skipped = "its loss is not finite";
  const double lr = learning_rate(c_.schedule, number);
  StepReport report;
  if (result.skipped.empty()) {
    std::vector<const float*> grads;
    for (const TrainParam& param : params_) grads.push_back(gradients_.of(*param.param).data);
    report = optimizer_->step(*context_.pool, *context_.kernels, params_, grads, lr);
    if (report.skipped) result.skipped = "the gradient of " + report.not_finite + " is not finite";
  }
  if (!result.skipped.empty()) result.loss = report.grad_norm = std::numeric_limits<double>::quiet_NaN();
  result.metrics = {{"loss", result.loss}, {"lr", lr}, {"grad_norm", report.grad_norm}};
  for (std::size_t layer = 0; layer < losses.size() && result.skipped.empty(); ++layer) {
    result.metrics.push_back({fmt::format("layers.{}", layer), losses[layer]});
  }
  return result;
}

/// Adds factor · KL of each row and layer to the losses, and its gradients to those of the maps.
void TunedLearner::add_list(std::span<const std::int32_t> ids, double factor, std::vector<double>& losses) {
  const ModelConfig& model = context_.model->config();
  const ArenaScope scope(arena_);
  Pass p = text_pass(context_, arena_, ids);
  const std::int64_t n = std::ssize(ids), d = params_.front().shape[0];
  std::vector<Tensor> states;
  const std::vector<SiteId> sites = stream_states(model, false);
  for (std::size_t i = 0; i < sites.size(); ++i) states.push_back(arena_.tensor({n, d}));
  SiteReader reader(sites, [&](Pass& pass, const SiteId& id, const Tensor& value) {
    const auto at = std::ranges::find(sites, id) - sites.begin();
    pass.copy(value.data, value.count(), states[static_cast<std::size_t>(at)].data);
  });
  p.taps = &reader;
  context_.model->forward(p, ids);
  p.taps = nullptr;
  const std::int64_t most = std::max<std::int64_t>(1, kLogitsAtOnce / model.vocab_size);
  for (std::int64_t first = 0; first < n; first += most) {
    const ArenaScope group(arena_);
    Rows rows;
    const std::int64_t count = std::min(most, n - first);
    for (const Tensor& state : states) rows.states.push_back(state.row_range(first, count));
    for (std::int64_t i = 0; i < count; ++i) rows.numbers.push_back(first + i);
    const FinalRows final(context_.model->head(p, rows.states.back(), rows.numbers), *context_.pool);
    for (std::size_t layer = 0; layer < layers_.size(); ++layer)
      add_layer(p, layer, rows, final, factor, losses[layer]);
  }
}

void TunedLearner::add_layer(Pass& p, std::size_t layer, const Rows& rows, const FinalRows& final, double factor,
                             double& loss) {
  const ArenaScope scope(arena_);
  const Exchanged<Tape*> taped(p.training.tape, &tape_);
  const Tensor& state = rows.states[layer];
  tape_.record("input", {}, state, [] {});
  const Tensor logits = context_.model->head(p, map_states(p, LensKind::tuned, layers_[layer], state), rows.numbers);
  const Tensor gradient = p.grad(logits);  // the backward starts here
  std::vector<double> divergences(rows.numbers.size());
  p.for_rows(logits.rows(), 100 * logits.row_size(), [&](std::int64_t i) {
    const std::span<const float> own(logits.row(i), static_cast<std::size_t>(logits.row_size()));
    const std::span<const double> probs = final.probabilities(i);
    const double normalizer = log_sum_exp(own);
    divergences[static_cast<std::size_t>(i)] = final.divergence(i, own, normalizer);
    std::size_t id = 0;
    float* const to = gradient.row(i);
    each_exp(own, normalizer, [&](double, double prob) {
      to[id] = static_cast<float>(factor * (prob - probs[id]));
      ++id;
    });
  });
  for (const double divergence : divergences) loss += factor * divergence;
  tape_.unwind();
}

std::vector<OptimizerArray> TunedLearner::arrays() {
  std::vector<OptimizerArray> all = optimizer_->state(params_);
  for (const TrainParam& param : params_) {
    all.push_back({"param." + param.name, &param.shape, {param.value, static_cast<std::size_t>(param.count())}});
  }
  return all;
}

RunWords TunedLearner::words() const {
  return {{{"lens", name_of(LensKind::tuned)},
           {"start", c_.lens->start},
           {"batch", c_.train.batch},
           {"seed", c_.train.seed},
           {"order", c_.data.talk.is_shuffled ? "shuffled" : "file"},
           {"optimizer", c_.optimizer.kind == OptimizerConfig::Kind::adamw ? "adamw" : "sgd"},
           {"data", fmt::format("{:016x}", lists_.fingerprint())}},
          rate_words(c_)};
}

}  // namespace vitrine
