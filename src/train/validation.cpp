#include "train/validation.h"

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

Score score_batch(Learner& learner, const Batch& batch) {
  Score score;
  try {
    if (batch.pairs.empty()) {
      score.nats = learner.score(batch);
      score.tokens = batch.n_counted();
    } else {
      score.pairs = learner.compare(batch);
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
  std::vector<Score> scores(static_cast<std::size_t>(n));
  std::vector<std::int64_t> bounds;
  for (int r = 0; r <= ranks.size(); ++r) bounds.push_back(n * r / ranks.size());
  const auto own = static_cast<std::size_t>(ranks.rank());
  for (std::int64_t i = bounds[own]; i < bounds[own + 1]; ++i) {
    Score& score = scores[static_cast<std::size_t>(i)] = score_batch(learner, batch_of(i));
    if (score.failure[0] != '\0') break;
  }
  for (std::int64_t& bound : bounds) bound *= static_cast<std::int64_t>(sizeof(Score));
  ranks.wait(ranks.gather(std::as_writable_bytes(std::span(scores)), bounds, Channel::control));
  Validation result;
  for (const Score& score : scores) {
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
