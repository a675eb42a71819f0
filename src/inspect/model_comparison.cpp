#include "inspect/model_comparison.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "generate/evaluate.h"
#include "generate/sampler.h"
#include "inspect/text_pass.h"
#include "inspect/window_run.h"

namespace vitrine {
namespace {

/// The site of the stream after each layer.
std::vector<SiteId> resid_sites(const ModelConfig& config) {
  std::vector<SiteId> sites;
  for (std::size_t i = 0; i < config.n_layers(); ++i) {
    sites.push_back(BlockSite{static_cast<int>(i), config.stack()}(Site::resid_post));
  }
  return sites;
}

struct PositionDifference {
  double kl = 0, nats = 0, own_nats = 0;
  bool same_top = false;
};

PositionDifference difference_of(std::span<const float> own, std::span<const float> other, std::int32_t target) {
  const double own_normalizer = log_sum_exp(own), normalizer = log_sum_exp(other);
  PositionDifference out;
  out.kl = kl_divergence(other, normalizer, own, own_normalizer);
  out.nats = normalizer - static_cast<double>(other[static_cast<std::size_t>(target)]);
  out.own_nats = own_normalizer - static_cast<double>(own[static_cast<std::size_t>(target)]);
  const auto top = [](std::span<const float> x) { return std::max_element(x.begin(), x.end()) - x.begin(); };
  out.same_top = top(own) == top(other);
  return out;
}

}  // namespace

ModelComparison::ModelComparison(const GenerateContext& own, const GenerateContext& other, bool layers)
    : own_(own), other_(other), layers_(layers) {
  const ModelConfig &a = own.model->config(), &b = other.model->config();
  if (a.vocab_size != b.vocab_size) {
    throw BadInput("--against", "expected a model with {} tokens, got one with {}", a.vocab_size, b.vocab_size);
  }
  for (const ModelConfig* const config : {&a, &b}) {
    if (config->encoder || is_bidirectional(*config) || !config->has_head) {
      throw Unsupported("--against", "only models that continue texts can be compared");
    }
  }
  if (!layers) return;
  const auto width = [](const ModelConfig& c) { return c.width_before(c.n_layers()); };
  if (a.n_layers() != b.n_layers() || width(a) != width(b)) {
    throw BadInput("--layers", "expected {} layers of width {}, got {} of {}", a.n_layers(), width(a), b.n_layers(),
                   width(b));
  }
  differences_.resize(a.n_layers());
  sizes_.resize(a.n_layers());
}

double ModelComparison::add(std::span<const std::int32_t> ids, std::int64_t first_row) {
  const std::span<const std::int32_t> fed = ids.first(ids.size() - 1);  // no target follows the last one
  WindowRun own(own_, fed), other(other_, fed);
  if (layers_) {
    compare_streams(own, other);
  } else {
    other.run();
    own.run();
  }
  const double before = sums_.own_nats;
  const auto n_rows = static_cast<std::int64_t>(fed.size());
  const std::int64_t group = rows_of_logits_at_once(own_.model->config());
  for (std::int64_t first = first_row; first < n_rows; first += group) {
    compare_rows(own, other, ids.subspan(1), first, std::min(group, n_rows - first));
  }
  return sums_.own_nats - before;
}

void ModelComparison::compare_streams(WindowRun& own, WindowRun& other) {
  std::vector<std::vector<float>> streams(differences_.size());  // of the other model, after each layer
  const auto layer_of = [](const SiteId& id) { return static_cast<std::size_t>(id.layer); };
  SiteReader read(resid_sites(other_.model->config()), [&](Pass&, const SiteId& id, const Tensor& value) {
    std::vector<float>& to = streams[layer_of(id)];
    to.insert(to.end(), value.data, value.data + value.count());
  });
  other.run(&read);
  SiteReader compare(resid_sites(own_.model->config()), [&](Pass& pass, const SiteId& id, const Tensor& stream) {
    const std::size_t layer = layer_of(id);
    const float* const of_other = streams[layer].data() + pass.segments.front().position * stream.row_size();
    for (std::int64_t i = 0; i < stream.count(); ++i) {
      const double value = static_cast<double>(of_other[i]), difference = static_cast<double>(stream.data[i]) - value;
      differences_[layer] += difference * difference;
      sizes_[layer] += value * value;
    }
  });
  own.run(&compare);
}

void ModelComparison::compare_rows(WindowRun& own, WindowRun& other, std::span<const std::int32_t> targets,
                                   std::int64_t first, std::int64_t n) {
  const ArenaScope own_scope(own.arena()), other_scope(other.arena());
  const Tensor of_own = own.logits(first, n), of_other = other.logits(first, n);
  const auto vocab_size = static_cast<std::size_t>(own_.model->config().vocab_size);
  std::vector<PositionDifference> positions(static_cast<std::size_t>(n));
  own_.pool->parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      positions[static_cast<std::size_t>(row)] =
          difference_of({of_own.row(row), vocab_size}, {of_other.row(row), vocab_size},
                        targets[static_cast<std::size_t>(first + row)]);
    }
  });
  for (const PositionDifference& position : positions) {
    kls_.push_back(position.kl);
    sums_.nats += position.nats;
    sums_.own_nats += position.own_nats;
    const double dp = math::exp(-position.own_nats) - math::exp(-position.nats);
    square_of_dp_ += dp * dp;
    n_same_top_ += position.same_top ? 1 : 0;
  }
}

ModelDifference ModelComparison::result() const {
  ModelDifference out = sums_;
  std::vector<double> sorted = kls_;
  std::sort(sorted.begin(), sorted.end());
  out.tokens = static_cast<std::int64_t>(sorted.size());
  const auto n = static_cast<double>(sorted.size());
  out.same_top = static_cast<double>(n_same_top_) / n;
  out.dp_rms = std::sqrt(square_of_dp_ / n);
  for (const double kl : kls_) out.kl.mean += kl / n;
  double variance = 0;
  for (const double kl : kls_) variance += (kl - out.kl.mean) * (kl - out.kl.mean);
  if (out.tokens > 1) out.kl.stderr_of_mean = std::sqrt(variance / (n - 1) / n);
  out.kl.median = percentile(sorted, 0.5);
  out.kl.p90 = percentile(sorted, 0.9);
  out.kl.p99 = percentile(sorted, 0.99);
  out.kl.p999 = percentile(sorted, 0.999);
  out.kl.max = sorted.empty() ? 0 : sorted.back();
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    out.resid_errors.push_back(sizes_[i] > 0 ? std::sqrt(differences_[i] / sizes_[i]) : 0.0);
  }
  return out;
}

double percentile(std::span<const double> sorted, double at) {
  if (sorted.empty()) return 0;
  const double position = at * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

}  // namespace vitrine
