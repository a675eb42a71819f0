#include "generate/filters.h"

namespace vitrine {
namespace {

void keep_top_k(const SamplingConfig& config, Ranking& ranking) {
  if (config.top_k > 0) ranking.keep(static_cast<std::size_t>(config.top_k));
}

void keep_top_p(const SamplingConfig& config, Ranking& ranking) {
  if (config.top_p == 1) return;
  const double enough = config.top_p * ranking.total();  // positive
  double sum = 0;
  std::size_t n = 0;
  while (n < ranking.size() && sum < enough) sum += ranking.weight(n++);
  ranking.keep(n, sum);
}

void keep_min_p(const SamplingConfig& config, Ranking& ranking) {
  if (config.min_p == 0) return;
  double sum = 0;
  std::size_t n = 0;
  for (; n < ranking.size() && ranking.weight(n) >= config.min_p; ++n) sum += ranking.weight(n);
  ranking.keep(n, sum);
}

constexpr Filter kFilters[] = {keep_top_k, keep_top_p, keep_min_p};

}  // namespace

std::span<const Filter> filters() { return kFilters; }

}  // namespace vitrine
