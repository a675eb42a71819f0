#include "metrics/ranking_scores.h"

#include <algorithm>

#include "base/math.h"

namespace vitrine {
namespace {

constexpr std::size_t kCuts[] = {1, 3, 5, 10}, kWide = 100, kUsual = 10;

double discount(std::size_t rank) { return math::log(2) / math::log(static_cast<double>(rank) + 2); }

/// The relevant documents among the first k.
double hits(const RankedQuery& query, std::size_t k) {
  const auto end = query.is_relevant.begin() + std::min(std::ssize(query.is_relevant), static_cast<std::ptrdiff_t>(k));
  return static_cast<double>(std::count(query.is_relevant.begin(), end, true));
}

double reciprocal_rank(const std::vector<bool>& is_relevant) {
  const auto at = std::find(is_relevant.begin(), is_relevant.end(), true) - is_relevant.begin();
  const bool is_near = at < std::ssize(is_relevant) && at < static_cast<std::ptrdiff_t>(kUsual);
  return is_near ? 1 / static_cast<double>(at + 1) : 0;
}

/// That of a search that puts all relevant documents first.
double best_gain(std::int64_t n_relevant) {
  double sum = 0;
  for (std::size_t i = 0; i < kUsual && static_cast<std::int64_t>(i) < n_relevant; ++i) sum += discount(i);
  return sum;
}

double gain(const RankedQuery& query) {
  double sum = 0;
  for (std::size_t i = 0; i < std::min(kUsual, query.is_relevant.size()); ++i) {
    if (query.is_relevant[i]) sum += discount(i);
  }
  return sum / best_gain(query.n_relevant);
}

double average_precision(const RankedQuery& query) {
  double sum = 0, n = 0;
  for (std::size_t i = 0; i < std::min(kWide, query.is_relevant.size()); ++i) {
    if (query.is_relevant[i]) sum += ++n / static_cast<double>(i + 1);
  }
  return sum / static_cast<double>(std::min<std::int64_t>(kWide, query.n_relevant));
}

}  // namespace

std::vector<NamedScore> query_scores(const RankedQuery& query) {
  std::vector<NamedScore> scores = {
      {"ndcg@10", gain(query)}, {"mrr@10", reciprocal_rank(query.is_relevant)}, {"map@100", average_precision(query)}};
  const auto n_relevant = static_cast<double>(query.n_relevant);
  for (const std::size_t k : kCuts) {
    const std::string at = "@" + std::to_string(k);
    scores.push_back({"accuracy" + at, hits(query, k) > 0 ? 1.0 : 0.0});
    scores.push_back({"precision" + at, hits(query, k) / static_cast<double>(k)});
    scores.push_back({"recall" + at, hits(query, k) / n_relevant});
  }
  scores.push_back({"recall@100", hits(query, kWide) / n_relevant});
  return scores;
}

std::vector<NamedScore> rerank_scores(std::span<const double> scores, const std::vector<bool>& is_relevant) {
  std::vector<std::size_t> order = all_numbers(scores.size());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::vector<bool> ranked;
  for (const std::size_t i : order) ranked.push_back(is_relevant[i]);
  const std::int64_t n_relevant = std::count(ranked.begin(), ranked.end(), true);
  if (n_relevant == 0) return {{"map", 0}, {"mrr@10", 0}, {"ndcg@10", 0}};
  double precision_sum = 0, gains = 0, n_hits = 0;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) ++end;
    double own = 0, discounts = 0;
    for (std::size_t i = begin; i < end; ++i) {
      own += ranked[i] ? 1 : 0;
      discounts += i < kUsual ? discount(i) : 0;
    }
    n_hits += own;
    precision_sum += own * n_hits / static_cast<double>(end);
    gains += own / static_cast<double>(end - begin) * discounts;
  }
  return {{"map", precision_sum / static_cast<double>(n_relevant)},
          {"mrr@10", reciprocal_rank(ranked)},
          {"ndcg@10", gains / best_gain(n_relevant)}};
}

std::vector<NamedScore> mean_scores(std::span<const std::vector<NamedScore>> queries,
                                    std::span<const std::size_t> numbers) {
  std::vector<NamedScore> means;
  if (queries.empty()) return means;
  for (const NamedScore& score : queries.front()) means.push_back({score.name, 0});
  for (const std::size_t i : numbers) {
    for (std::size_t k = 0; k < means.size(); ++k) means[k].value += queries[i][k].value;
  }
  for (NamedScore& mean : means) mean.value /= static_cast<double>(numbers.size());
  return means;
}

}  // namespace vitrine
