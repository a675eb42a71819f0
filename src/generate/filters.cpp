#include "generate/filters.h"

#include <cmath>
#include <numeric>

namespace vitrine {
namespace {

/// The number of candidates that a filter leaves at least.
std::size_t least_of(const SamplingConfig& config, const Ranking& ranking) {
  return std::min(ranking.size(), static_cast<std::size_t>(std::max(config.min_keep, 1)));
}

void keep_top_k(const SamplingConfig& config, Ranking& ranking) {
  if (config.top_k > 0) ranking.keep(static_cast<std::size_t>(config.top_k));
}

void keep_top_p(const SamplingConfig& config, Ranking& ranking) {
  if (config.top_p == 1) return;
  const double enough = config.top_p * ranking.total();
  double sum = 0;
  std::size_t n = 0;
  const std::size_t least = least_of(config, ranking);  // also if top_p is 0
  while (n < least || (n < ranking.size() && sum < enough)) sum += ranking.weight(n++);
  ranking.keep(n, sum);
}

void keep_min_p(const SamplingConfig& config, Ranking& ranking) {
  if (config.min_p == 0) return;
  const double lowest = config.min_p * ranking.weight(0);  // typical_p may have removed the most likely token
  const std::size_t least = least_of(config, ranking);
  double sum = 0;
  std::size_t n = 0;
  for (; n < ranking.size() && (n < least || ranking.weight(n) >= lowest); ++n) sum += ranking.weight(n);
  ranking.keep(n, sum);
}

/// −log p of each candidate, and Σ p · −log p.
struct Surprise {
  std::vector<double> each;
  double mean = 0;
};

Surprise surprise_of(Ranking& ranking) {
  Surprise surprise;
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    const double p = ranking.weight(i) / ranking.total();
    surprise.each.push_back(p > 0 ? -math::log(p) : std::numeric_limits<double>::infinity());
    if (p > 0) surprise.mean += p * surprise.each.back();
  }
  return surprise;
}

void keep_typical_p(const SamplingConfig& config, Ranking& ranking) {
  if (config.typical_p == 1) return;
  const Surprise surprise = surprise_of(ranking);
  const auto distance = [&](std::size_t i) { return std::abs(surprise.each[i] - surprise.mean); };
  std::vector<std::size_t> order(ranking.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
  const double enough = config.typical_p * ranking.total();
  const std::size_t least = least_of(config, ranking);
  double sum = 0;
  std::size_t last = 0;  // the first at which the sum is enough
  for (; last + 1 < order.size(); ++last) {
    sum += ranking.weight(order[last]);
    if (sum >= enough && last + 1 >= least) break;
  }
  const double farthest = distance(order[last]);
  ranking.keep_if([&](std::size_t i) { return distance(i) <= farthest; });
}

/// Keeps the tokens with a probability of at least `least`, and those as likely as the most likely one.
void keep_probable(double least, Ranking& ranking) {
  std::size_t n = 1;
  while (n < ranking.size() && (ranking.weight(n) >= least * ranking.total() || ranking.weight(n) == 1)) ++n;
  ranking.keep(n);
}

void keep_epsilon(const SamplingConfig& config, Ranking& ranking) {
  if (config.epsilon_cutoff > 0) keep_probable(config.epsilon_cutoff, ranking);
}

void keep_eta(const SamplingConfig& config, Ranking& ranking) {
  const double eta = config.eta_cutoff;
  if (eta > 0) keep_probable(std::min(eta, std::sqrt(eta) * math::exp(-surprise_of(ranking).mean)), ranking);
}

/// Source: Tang et al. 2024, "Top-nσ".
void keep_top_n_sigma(const SamplingConfig& config, Ranking& ranking) {
  if (config.top_n_sigma <= 0) return;
  const double deviation = ranking.deviation();  // before any sorting: sums in the order of ids
  const double least = ranking[0].logit - config.top_n_sigma * deviation;
  std::size_t n = 1;
  while (n < ranking.size() && ranking[n].logit >= least) ++n;
  ranking.keep(n);
}

/// Exclude top choices: with a probability, of the tokens that are likely enough only the least likely one remains.
/// Source: llama.cpp's sampler of this name.
void keep_xtc(const SamplingConfig& config, Ranking& ranking) {
  if (config.xtc_probability <= 0 || config.xtc_threshold > 0.5 || ranking.size() < 2) return;
  if (ranking.chance() > config.xtc_probability) return;
  std::size_t n = 0;
  while (n < ranking.size() && ranking.weight(n) / ranking.total() >= config.xtc_threshold) ++n;
  if (n < 2 || ranking.size() - (n - 1) < least_of(config, ranking)) return;
  ranking.keep_if([n](std::size_t i) { return i + 1 >= n; });
}

constexpr Filter kFilters[] = {{"top_n_sigma", keep_top_n_sigma},
                               {"top_k", keep_top_k},
                               {"typical_p", keep_typical_p},
                               {"top_p", keep_top_p},
                               {"min_p", keep_min_p},
                               {"epsilon_cutoff", keep_epsilon},
                               {"eta_cutoff", keep_eta},
                               {"xtc_probability", keep_xtc}};

}  // namespace

std::span<const Filter> filters() { return kFilters; }

}  // namespace vitrine
