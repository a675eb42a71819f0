#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"
#include "base/math.h"
#include "train/distributed/slices.h"

namespace vitrine {
namespace {

void check_range(const char* name, double value, double lowest, double below) {
  if (!(value >= lowest && value < below)) {
    throw BadInput(name, "expected a number of at least {} and below {}, got {}", lowest, below, value);
  }
}

AdamwStep adamw_step(const OptimizerConfig& c, std::int64_t t, double lr, bool decays, double grad_scale) {
  const auto n = static_cast<double>(t);
  return {.grad_scale = static_cast<float>(grad_scale),
          .keep = static_cast<float>(1 - lr * (decays ? c.weight_decay : 0.0)),
          .rate = static_cast<float>(lr / (1 - math::pow(c.beta1, n))),
          .toward = static_cast<float>(1 - c.beta1),
          .beta2 = static_cast<float>(c.beta2),
          .toward2 = static_cast<float>(1 - c.beta2),
          .root_divisor = static_cast<float>(std::sqrt(1 - math::pow(c.beta2, n))),
          .eps = static_cast<float>(c.eps)};
}

SgdStep sgd_step(const OptimizerConfig& c, double lr, bool decays, double grad_scale) {
  return {.grad_scale = static_cast<float>(grad_scale),
          .decay = static_cast<float>(decays ? c.weight_decay : 0.0),
          .momentum = static_cast<float>(c.momentum),
          .rate = static_cast<float>(lr)};
}

}  // namespace

Shard shard_named(std::string_view name) {
  const auto it = std::find(std::begin(kShardNames), std::end(kShardNames), name);
  if (it == std::end(kShardNames)) throw InternalError("--shard", "there is no {}", name);
  return static_cast<Shard>(it - std::begin(kShardNames));
}

Optimizer::Optimizer(const OptimizerConfig& config, std::span<const TrainParam> params) : config_(config) {
  constexpr double kAny = 1e30;
  check_range("beta1", config.beta1, 0, 1);
  check_range("beta2", config.beta2, 0, 1);
  check_range("eps", config.eps, 0, kAny);
  check_range("weight_decay", config.weight_decay, 0, kAny);
  check_range("momentum", config.momentum, 0, 1);
  if (config.max_norm && !(*config.max_norm > 0)) {
    throw BadInput("max_norm", "expected a positive number, got {}", *config.max_norm);
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::int64_t count = params[i].count();
    for (std::int64_t first = 0; first < count; first += kChunk) {
      chunks_.push_back({i, first, std::min(kChunk, count - first)});
    }
    first_.push_back(total);
    total += round_up(count, kParamAlignment);
  }
  sums_.resize(chunks_.size());
  for (int i = 0; i < n_moments(config.kind); ++i) {
    moments_.emplace_back(total * static_cast<std::int64_t>(sizeof(float)), "moments");
  }
}

void Optimizer::divide(const Slices& slices, Ranks& ranks) {
  ranks_ = &ranks;
  for (int i = 0; i < n_moments(config_.kind); ++i) use_small_pages(std::as_writable_bytes(moment(i)));
  for (int r = 0; r < ranks.size(); ++r) {
    owners_.push_back(owned_.size());
    for (std::size_t b = 0; b < slices.buckets(); ++b) {
      const Places slice = slices.slice(b, r);
      const auto place = [this](const Chunk& chunk) { return first_[chunk.param] + chunk.first; };
      auto chunk = std::lower_bound(chunks_.begin(), chunks_.end(), slice.first,
                                    [&](const Chunk& c, std::int64_t first) { return place(c) < first; });
      for (; chunk != chunks_.end() && place(*chunk) < slice.end; ++chunk) {
        owned_.push_back(static_cast<std::size_t>(chunk - chunks_.begin()));
      }
    }
  }
  owners_.push_back(owned_.size());
}

/// Calls visit(number) for each chunk that this rank updates.
template <class Visit>
void Optimizer::for_each_own_chunk(ThreadPool& pool, Visit&& visit) const {
  const std::size_t first = is_divided() ? owners_[static_cast<std::size_t>(ranks_->rank())] : 0;
  const std::size_t end = is_divided() ? owners_[static_cast<std::size_t>(ranks_->rank()) + 1] : chunks_.size();
  pool.parallel_for(static_cast<std::int64_t>(end - first), 4, [&](std::int64_t from, std::int64_t to, int) {
    for (std::size_t i = first + static_cast<std::size_t>(from); i < first + static_cast<std::size_t>(to); ++i) {
      visit(is_divided() ? owned_[i] : i);
    }
  });
}

/// Gives all ranks the sums of all chunks.
void Optimizer::share_sums() {
  if (!is_divided()) return;
  std::vector<float> sums;
  std::vector<std::int64_t> bounds;
  for (const std::size_t chunk : owned_) sums.push_back(sums_[chunk]);
  for (const std::size_t owner : owners_) bounds.push_back(static_cast<std::int64_t>(owner * sizeof(float)));
  ranks_->wait(ranks_->gather(std::as_writable_bytes(std::span(sums)), bounds, Channel::control));
  for (std::size_t i = 0; i < owned_.size(); ++i) sums_[owned_[i]] = sums[i];
}

StepReport Optimizer::norm(ThreadPool& pool, const Kernels& k, std::span<const TrainParam> params,
                           std::span<const float* const> grads) {
  for_each_own_chunk(pool, [&](std::size_t i) {
    const Chunk& chunk = chunks_[i];
    sums_[i] = k.sum_squares(grads[chunk.param] + chunk.first, chunk.count, 0.0f);
  });
  share_sums();
  StepReport report;
  double total = 0;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    total += static_cast<double>(sums_[i]);
    if (!std::isfinite(sums_[i]) && report.not_finite.empty()) report.not_finite = params[chunks_[i].param].name;
  }
  report.grad_norm = std::sqrt(total);
  report.skipped = !report.not_finite.empty();
  if (config_.max_norm) report.clip_factor = std::min(1.0, *config_.max_norm / (report.grad_norm + 1e-6));
  if (report.skipped) report.clip_factor = 0;
  return report;
}

StepReport Optimizer::step(ThreadPool& pool, const Kernels& k, std::span<const TrainParam> params,
                           const Gradients& gradients, double lr) {
  std::vector<const float*> grads;
  for (const TrainParam& param : params) grads.push_back(gradients.of(*param.param).data);
  return step(pool, k, params, grads, lr);
}

StepReport Optimizer::step(ThreadPool& pool, const Kernels& k, std::span<const TrainParam> params,
                           std::span<const float* const> grads, double lr) {
  if (params.size() != first_.size() || grads.size() != first_.size()) {
    throw InternalError("optimizer", "expected {} parameters, got {} and {} gradients", first_.size(), params.size(),
                        grads.size());
  }
  StepReport report = norm(pool, k, params, grads);
  if (report.skipped) return report;
  ++steps_;
  const AdamwStep adamw[2] = {adamw_step(config_, steps_, lr, false, report.clip_factor),
                              adamw_step(config_, steps_, lr, true, report.clip_factor)};
  const SgdStep sgd[2] = {sgd_step(config_, lr, false, report.clip_factor),
                          sgd_step(config_, lr, true, report.clip_factor)};
  for_each_own_chunk(pool, [&](std::size_t i) {
    const Chunk& chunk = chunks_[i];
    const TrainParam& param = params[chunk.param];
    const float* const g = grads[chunk.param] + chunk.first;
    float* const p = param.value + chunk.first;
    float* const m = moments_[0].floats() + first_[chunk.param] + chunk.first;
    const int group = param.decays() ? 1 : 0;
    if (config_.kind == OptimizerConfig::Kind::adamw) {
      k.adamw(adamw[group], g, chunk.count, p, m, moments_[1].floats() + first_[chunk.param] + chunk.first);
    } else {
      k.sgd(sgd[group], g, chunk.count, p, m);
    }
    if (param.limit) {
      std::transform(p, p + chunk.count, p, [by = *param.limit](float x) { return std::clamp(x, -by, by); });
    }
    if (param.rounded != nullptr) {
      k.narrow(p, chunk.count, DType::bf16, param.rounded + chunk.first * size_of(DType::bf16));
    }
  });
  return report;
}

std::vector<OptimizerArray> Optimizer::state(std::span<const TrainParam> params) {
  if (params.size() != first_.size()) throw InternalError("optimizer", "expected the parameters of the constructor");
  const bool is_adamw = config_.kind == OptimizerConfig::Kind::adamw;
  const char* const names[] = {is_adamw ? "exp_avg." : "momentum.", "exp_avg_sq."};
  std::vector<OptimizerArray> arrays;
  for (std::size_t m = 0; m < moments_.size(); ++m) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      float* const values = moments_[m].floats() + first_[i];
      arrays.push_back(
          {names[m] + params[i].name, &params[i].shape, {values, static_cast<std::size_t>(params[i].count())}});
    }
  }
  return arrays;
}

}  // namespace vitrine
