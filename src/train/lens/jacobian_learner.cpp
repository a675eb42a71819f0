#include "train/lens/jacobian_learner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "inspect/stream_jacobian.h"

namespace vitrine {

JacobianLearner::JacobianLearner(const TrainConfig& config, const GenerateContext& context, IdLists lists)
    : c_(config), context_(context), lists_(std::move(lists)) {
  const ModelConfig& model = context.model->config();
  check_jacobian(model);
  const std::int64_t shortest = c_.lens->skip_first_positions + 2, n_all = lists_.size();
  lists_.keep_from(shortest);
  n_left_out_ = n_all - lists_.size();
  if (lists_.size() == 0) {
    throw BadInput(c_.data.ids,
                   "expected a list of at least {} ids: lens.skip_first_positions and the last do not count", shortest);
  }
  const std::int64_t d = model.width_before(model.n_layers()), n = mapped_states(LensKind::jacobian, model).n_maps;
  shape_ = {d, d};
  memory_.resize(2 * n * shape_.count() * static_cast<std::int64_t>(sizeof(float)), "the Jacobians of a lens");
  for (std::int64_t i = 0; i < 2 * n; ++i) {
    (i < n ? sums_ : of_step_).push_back({memory_.floats() + i * shape_.count(), shape_});
  }
}

std::int64_t JacobianLearner::n_steps() const {
  const std::int64_t all = (lists_.size() + c_.train.batch - 1) / c_.train.batch;
  return c_.train.steps > 0 ? std::min(c_.train.steps, all) : all;
}

std::vector<std::string> JacobianLearner::plan() const {
  std::vector<std::string> lines = {
      fmt::format("Jacobian lens: {} layers of {}, {} lists of ids", sums_.size(), to_string(shape_), lists_.size())};
  if (n_left_out_ > 0) {
    lines.push_back(fmt::format("{} lists have fewer than {} ids and are left out", n_left_out_,
                                c_.lens->skip_first_positions + 2));
  }
  return lines;
}

StepLearner::Step JacobianLearner::step(std::int64_t number) {
  const std::int64_t first = number * c_.train.batch, end = std::min(first + c_.train.batch, lists_.size());
  for (const Tensor& own : of_step_) std::ranges::fill(own.values(), 0.0f);
  Step result;
  for (std::int64_t i = first; i < end; ++i) {
    add_jacobians(context_, lists_[i], {c_.lens->skip_first_positions, c_.lens->dim_batch}, of_step_);
    result.n_rows += std::ssize(lists_[i]);
  }
  const auto is_finite = [&](const Tensor& own) { return context_.kernels->all_finite(own.data, own.count()); };
  if (!std::ranges::all_of(of_step_, is_finite)) {
    result.skipped = "its Jacobians are not finite";
    return result;
  }
  result.loss = add_to_sums(end - first);
  result.metrics = {{"change", result.loss}, {"lists", static_cast<double>(n_lists_)}};
  return result;
}

/// Returns the change of the mean.
double JacobianLearner::add_to_sums(std::int64_t n_lists) {
  const double before = n_lists_ > 0 ? 1 / static_cast<double>(n_lists_) : 0;
  n_lists_ += n_lists;
  const double after = 1 / static_cast<double>(n_lists_);
  std::vector<double> changes(sums_.size()), sizes(sums_.size());
  context_.pool->parallel_for(std::ssize(sums_), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto layer = static_cast<std::size_t>(begin); layer < static_cast<std::size_t>(end); ++layer) {
      const std::span<float> sum = sums_[layer].values(), own = of_step_[layer].values();
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const double old_mean = static_cast<double>(sum[i]) * before;
        sum[i] += own[i];
        const double mean = static_cast<double>(sum[i]) * after;
        changes[layer] += (mean - old_mean) * (mean - old_mean);
        sizes[layer] += mean * mean;
      }
    }
  });
  double change = 0, size = 0;
  for (std::size_t layer = 0; layer < changes.size(); ++layer) change += changes[layer], size += sizes[layer];
  return size > 0 ? std::sqrt(change / size) : 0;
}

std::vector<OptimizerArray> JacobianLearner::arrays() {
  std::vector<OptimizerArray> all;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    all.push_back({fmt::format("sum.layers.{}", i), &shape_, sums_[i].values()});
  }
  return all;
}

RunWords JacobianLearner::words() const {
  return {{{"lens", name_of(LensKind::jacobian)},
           {"skip_first_positions", c_.lens->skip_first_positions},
           {"batch", c_.train.batch},
           {"data", fmt::format("{:016x}", lists_.fingerprint())}},
          Json::object({{"steps", c_.train.steps}})};
}

void JacobianLearner::write(const std::string& folder) {
  std::vector<LinearParams> layers(sums_.size());
  const std::int64_t n = std::max<std::int64_t>(1, n_lists_);
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const Tensor& mean = of_step_[i];  // which the next step sets anew
    std::ranges::transform(sums_[i].values(), mean.data, [&](float sum) { return sum / static_cast<float>(n); });
    layers[i].weight = {"", "", shape_, view_of(mean.data, shape_[0], shape_[1], shape_[1])};
  }
  write_trained_lens(folder, LensKind::jacobian, layers);
}

}  // namespace vitrine
