#include "train/validation.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

namespace vitrine {
namespace {

struct Score {
  double nats = 0;
  std::int64_t tokens = 0;
  PairSums pairs{};
  std::array<char, 256> failure{};
};

Score score_batch(Learner& learner, const Batch& batch, BlockEvents* events) {
  Score score;
  try {
    if (batch.pairs.empty()) {
      score.nats = learner.score(batch, events);
      score.tokens = batch.n_counted();
    } else {
      score.pairs = learner.compare(batch, events);
    }
  } catch (const NotFinite& e) {
    const std::string_view text = e.what();
    std::copy_n(text.begin(), std::min(text.size(), score.failure.size() - 1), score.failure.begin());
  }
  return score;
}

}  // namespace

std::vector<Metric> pair_metrics(const PairSums& sums, const std::string& prefix) {
  const auto n = static_cast<double>(sums.n);
  return {{prefix + "accuracy", static_cast<double>(sums.n_right) / n}, {prefix + "margin", sums.margin / n}};
}

double Validation::loss() const {
  return tokens > 0 ? nats / static_cast<double>(tokens) : std::numeric_limits<double>::quiet_NaN();
}

std::vector<Metric> Validation::metrics(double tokens_per_byte) const {
  std::vector<Metric> found = {{"val_loss", loss()}};
  if (pairs.n > 0) {
    const std::vector<Metric> more = pair_metrics(pairs, "val_");
    found.insert(found.end(), more.begin(), more.end());
  }
  if (tokens_per_byte > 0) found.push_back({"val_bits_per_byte", loss() / std::numbers::ln2 * tokens_per_byte});
  return found;
}

Validation validate(Learner& learner, std::int64_t n, const std::function<Batch(std::int64_t)>& batch_of,
                    Ranks& ranks) {
  const int n_ranks = ranks.size();
  std::vector<Score> own(static_cast<std::size_t>((n + n_ranks - 1) / n_ranks));  // of one batch per round
  for (std::int64_t first = 0, round = 0; first < n; first += n_ranks, ++round) {
    const bool has_failed = round > 0 && own[static_cast<std::size_t>(round - 1)].failure[0] != '\0';
    const auto score = [&](BlockEvents* events) {
      Score& made = own[static_cast<std::size_t>(round)];
      made = has_failed ? own[static_cast<std::size_t>(round - 1)]
                        : score_batch(learner, batch_of(first + ranks.rank()), events);
    };
    const int n_active = static_cast<int>(std::min<std::int64_t>(n_ranks, n - first));
    if (learner.shared() != nullptr) {
      learner.shared()->score(n_active, score);
    } else {
      score(nullptr);
    }
  }
  const std::vector<Score> all = ranks.gather_values<Score>(own);
  Validation result;
  for (std::int64_t i = 0; i < n; ++i) {
    const Score& score =
        all[static_cast<std::size_t>(i % n_ranks) * own.size() + static_cast<std::size_t>(i / n_ranks)];
    if (score.failure[0] != '\0') return {0, 0, {}, score.failure.data()};
    result.pairs.add(score.pairs);
    result.nats += score.nats;
    result.tokens += score.tokens;
  }
  if (result.pairs.n > 0) {
    result.nats = result.pairs.loss;
    result.tokens = result.pairs.n;
  }
  return result;
}

}  // namespace vitrine
