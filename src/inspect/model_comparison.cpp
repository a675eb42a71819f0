#include "inspect/model_comparison.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/math.h"
#include "generate/sampler.h"
#include "inspect/text_pass.h"

namespace vitrine {
namespace {

constexpr std::int64_t kGroupElements = std::int64_t{1} << 22;  // 16 MiB of logits at a time, of each model

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
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double log_q = static_cast<double>(own[i]) - own_normalizer;
    const double log_p = static_cast<double>(other[i]) - normalizer;
    const double p = math::exp(log_p);
    if (p > 0) out.kl += p * (log_p - log_q);
  }
  out.kl = std::max(out.kl, 0.0);
  out.nats = normalizer - static_cast<double>(other[static_cast<std::size_t>(target)]);
  out.own_nats = own_normalizer - static_cast<double>(own[static_cast<std::size_t>(target)]);
  const auto top = [](std::span<const float> x) { return std::max_element(x.begin(), x.end()) - x.begin(); };
  out.same_top = top(own) == top(other);
  return out;
}

}  // namespace

/// One model's pass over a window, whose last states the head reads group by group.
struct ModelComparison::Run {
  const GenerateContext& context;
  Arena arena;
  Pass pass;
  std::vector<float> last;                  // the input of the final norm
  std::vector<std::vector<float>> streams;  // after each layer

  Run(const GenerateContext& of, std::span<const std::int32_t> ids) : context(of), pass(text_pass(of, arena, ids)) {}

  /// Runs the window. Calls layer(i, stream) after each layer, if it is not null.
  void run(std::span<const std::int32_t> ids, const std::function<void(std::size_t, const Tensor&)>& layer) {
    const ModelConfig& config = context.model->config();
    const SiteId end = stream_states(config, false).back();
    std::vector<SiteId> sites = layer ? resid_sites(config) : std::vector<SiteId>{};
    const auto n_layers = sites.size();
    sites.push_back(end);
    SiteReader reader(sites, [&](Pass&, const SiteId& id, const Tensor& value) {
      const auto layers_end = sites.begin() + static_cast<std::ptrdiff_t>(n_layers);
      const auto at = std::find(sites.begin(), layers_end, id);
      if (at != layers_end) layer(static_cast<std::size_t>(at - sites.begin()), value);
      if (id == end) last.assign(value.data, value.data + value.count());
    });
    pass.taps = &reader;
    context.model->forward(pass, Tokens(ids));
    pass.taps = nullptr;
    if (pass.segments[0].failure) throw error_of(*pass.segments[0].failure);
  }

  Tensor logits(std::int64_t first, std::int64_t n) {
    const ModelConfig& config = context.model->config();
    const std::int64_t d = config.width_before(config.n_layers());
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(n));
    std::iota(numbers.begin(), numbers.end(), first);
    return context.model->head(pass, {last.data() + first * d, {n, d}}, numbers);
  }
};

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
  Run own(own_, fed), other(other_, fed);
  other.run(fed,
            layers_
                ? [&](std::size_t,
                      const Tensor& stream) { other.streams.emplace_back(stream.data, stream.data + stream.count()); }
                : std::function<void(std::size_t, const Tensor&)>());
  own.run(fed, layers_ ? [&](std::size_t layer, const Tensor& stream) {
    const std::vector<float>& of_other = other.streams[layer];
    for (std::size_t i = 0; i < of_other.size(); ++i) {
      const double value = static_cast<double>(of_other[i]), difference = static_cast<double>(stream.data[i]) - value;
      differences_[layer] += difference * difference;
      sizes_[layer] += value * value;
    }
  } : std::function<void(std::size_t, const Tensor&)>());

  const double before = sums_.own_nats;
  const auto n_rows = static_cast<std::int64_t>(fed.size());
  const std::int64_t group = std::max<std::int64_t>(1, kGroupElements / own_.model->config().vocab_size);
  for (std::int64_t first = first_row; first < n_rows; first += group) {
    compare_rows(own, other, ids.subspan(1), first, std::min(group, n_rows - first));
  }
  return sums_.own_nats - before;
}

void ModelComparison::compare_rows(Run& own, Run& other, std::span<const std::int32_t> targets, std::int64_t first,
                                   std::int64_t n) {
  const ArenaScope own_scope(own.arena), other_scope(other.arena);
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
