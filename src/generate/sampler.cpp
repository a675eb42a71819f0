#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/math.h"
#include "base/rng.h"
#include "generate/each_exp.h"

namespace vitrine {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Candidate {
  double logit;  // penalized, before temperature
  std::int32_t id;
};

bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// The largest logit. Rejects NaN, +inf, and logits that are all -inf, from which no token can be chosen.
double checked_max(std::span<const float> logits) {
  float max = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < std::numeric_limits<float>::infinity())) {
      throw BadInput("sampler", "expected finite logits, got {} for id {}", logits[i], i);
    }
    max = std::max(max, logits[i]);
  }
  if (std::isinf(max)) throw BadInput("sampler", "expected a possible token, got {} logits of -inf", logits.size());
  return max;
}

std::size_t index_of_id(std::int32_t id, std::size_t vocab_size, std::string_view where) {
  if (id < 0 || static_cast<std::size_t>(id) >= vocab_size) {
    throw BadInput("sampler", "expected ids from 0 to {} in the {}, got {}", vocab_size - 1, where, id);
  }
  return static_cast<std::size_t>(id);
}

/// Applies the repeat penalty to a score.
void penalize_repeat(double& score, std::int32_t id, double penalty) {
  const bool was_infinite = std::isinf(score);
  score = score > 0 ? score / penalty : score * penalty;
  if (std::isinf(score) && !was_infinite) {
    throw BadInput("sampler", "a repeat_penalty of {} takes the logit of id {} out of range", penalty, id);
  }
}

/// The logits after the bias and the penalties.
std::vector<double> changed_logits(std::span<const float> logits, std::span<const std::int32_t> history,
                                   std::size_t n_generated, const SamplingConfig& config) {
  std::vector<double> result(logits.begin(), logits.end());
  for (const auto& [id, bias] : config.logit_bias) result[index_of_id(id, result.size(), "logit bias")] += bias;
  if (config.repeat_penalty != 1) {
    std::vector<bool> done(logits.size());
    for (const std::int32_t id : history) {
      const std::size_t i = index_of_id(id, result.size(), "history");
      if (!done[i]) penalize_repeat(result[i], id, config.repeat_penalty);
      done[i] = true;
    }
  }
  if (config.frequency_penalty == 0 && config.presence_penalty == 0) return result;
  const auto generated = history.last(std::min(n_generated, history.size()));
  std::vector<std::int32_t> sorted(generated.begin(), generated.end());
  std::sort(sorted.begin(), sorted.end());
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto end = std::upper_bound(first, sorted.end(), *first);
    const auto n = static_cast<double>(end - first);
    result[index_of_id(*first, result.size(), "history")] -= n * config.frequency_penalty + config.presence_penalty;
    first = end;
  }
  return result;
}

/// Candidates, most likely first, without tokens of probability 0. They are sorted as far as they are read: sorting a
/// vocabulary takes longer than everything else.
class Ranking {
 public:
  Ranking(const std::vector<double>& logits, int top_k) {
    all_.reserve(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] > -kInfinity) all_.push_back({logits[i], static_cast<std::int32_t>(i)});
    }
    if (top_k == 0 || static_cast<std::size_t>(top_k) >= all_.size()) return;
    sort_to(static_cast<std::size_t>(top_k));
    all_.resize(n_sorted_);
  }

  std::size_t size() const { return all_.size(); }
  const Candidate& operator[](std::size_t i) {
    if (i >= n_sorted_) sort_to(std::min(all_.size(), std::max<std::size_t>(i + 1, std::max<std::size_t>(64, 4 * i))));
    return all_[i];
  }
  /// In an order that depends on the logits only: by id, or with top-k the most likely first.
  std::span<const Candidate> before_sorting() const { return all_; }
  std::vector<Candidate> sorted() {
    sort_to(all_.size());
    return all_;
  }

 private:
  void sort_to(std::size_t end) {
    const auto at = [&](std::size_t i) { return all_.begin() + static_cast<std::ptrdiff_t>(i); };
    if (end < all_.size()) std::nth_element(at(n_sorted_), at(end), all_.end(), more_likely);
    std::sort(at(n_sorted_), at(end), more_likely);
    n_sorted_ = end;
  }

  std::vector<Candidate> all_;
  std::size_t n_sorted_ = 0;
};

/// Cuts `weights` (unnormalized probabilities, descending, the first one 1) down to those that top-p and min-p keep.
void cut(std::vector<double>& weights, double top_p, double min_p) {
  if (top_p < 1) {
    double total = 0;
    for (double weight : weights) total += weight;
    double sum = 0;
    std::size_t kept = 0;
    while (kept < weights.size() && sum < top_p * total) sum += weights[kept++];
    weights.resize(kept);  // at least one, because top_p * total is positive
  }
  const auto below = std::partition_point(weights.begin(), weights.end(), [&](double w) { return w >= min_p; });
  weights.erase(below, weights.end());
}

}  // namespace

void SamplingConfig::validate() const {
  // Written so that NaN fails.
  if (!(temperature >= 0 && temperature < kInfinity)) {
    throw BadInput("temperature", "expected a finite number >= 0, got {}", temperature);
  }
  if (top_k < 0) throw BadInput("top_k", "expected a number >= 0 (0 is off), got {}", top_k);
  if (!(top_p > 0 && top_p <= 1)) throw BadInput("top_p", "expected a number in (0, 1], got {}", top_p);
  if (!(min_p >= 0 && min_p <= 1)) throw BadInput("min_p", "expected a number in [0, 1], got {}", min_p);
  if (!(repeat_penalty > 0 && repeat_penalty < kInfinity)) {
    throw BadInput("repeat_penalty", "expected a finite number > 0, got {}", repeat_penalty);
  }
  for (const double penalty : {frequency_penalty, presence_penalty}) {
    if (!std::isfinite(penalty)) throw BadInput("penalty", "expected finite penalties, got {}", penalty);
  }
  for (const auto& [id, bias] : logit_bias) {
    if (!std::isfinite(bias)) throw BadInput("logit_bias", "expected finite numbers, got {} for id {}", bias, id);
  }
}

std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history, const SamplingConfig& config,
                    const DrawKey& key, std::size_t n_generated) {
  config.validate();
  const double largest = checked_max(logits);
  if (config.temperature == 0 && !config.changes_logits()) {
    return static_cast<std::int32_t>(std::find(logits.begin(), logits.end(), largest) - logits.begin());
  }
  const std::vector<double> scores = changed_logits(logits, history, n_generated, config);
  if (config.temperature == 0) {
    return static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }

  Ranking ranking(scores, config.top_k);
  const double most = *std::max_element(scores.begin(), scores.end());
  // The maximum is subtracted first, so that no temperature, however small, overflows.
  const auto weight = [&](const Candidate& c) { return math::exp((c.logit - most) / config.temperature); };
  double total = 0;
  for (const Candidate& candidate : ranking.before_sorting()) total += weight(candidate);
  std::size_t n_kept = ranking.size();
  if (config.top_p < 1 || config.min_p > 0) {  // keeps at least one, whose weight is 1
    double sum = 0;
    for (n_kept = 0; n_kept < ranking.size() && !(config.top_p < 1 && sum >= config.top_p * total); ++n_kept) {
      const double own = weight(ranking[n_kept]);
      if (own < config.min_p) break;
      sum += own;
    }
    total = sum;
  }
  const double target = uniform(key.seed, key.sequence, key.step) * total;
  double sum = 0;
  std::int32_t last = 0;
  for (std::size_t i = 0; i < n_kept; ++i) {
    const double own = weight(ranking[i]);
    if (own == 0) break;
    last = ranking[i].id;
    sum += own;
    if (sum > target) break;
  }
  return last;  // if the target is not reached, then because the total was rounded in another order
}

std::vector<FunnelToken> sampling_funnel(std::span<const float> logits, std::span<const std::int32_t> history,
                                         const SamplingConfig& config) {
  config.validate();
  if (config.temperature == 0) throw BadInput("temperature", "expected a number > 0 for a funnel, got 0");
  checked_max(logits);
  constexpr std::size_t kNoneGenerated = 0;  // a funnel shows the first token after a prompt
  const std::vector<Candidate> all = Ranking(changed_logits(logits, history, kNoneGenerated, config), 0).sorted();
  std::vector<double> weights;
  weights.reserve(all.size());
  double total = 0;
  for (const Candidate& candidate : all) {
    weights.push_back(math::exp((candidate.logit - all.front().logit) / config.temperature));
    total += weights.back();
  }
  std::vector<FunnelToken> tokens;
  tokens.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) tokens.push_back({all[i].id, all[i].logit, weights[i] / total});
  const auto remove_from = [&](FunnelToken::Removed by) {
    for (std::size_t i = weights.size(); i < tokens.size() && tokens[i].removed == FunnelToken::Removed::no; ++i) {
      tokens[i].removed = by;
    }
  };
  if (config.top_k > 0) weights.resize(std::min(weights.size(), static_cast<std::size_t>(config.top_k)));
  remove_from(FunnelToken::Removed::by_top_k);
  cut(weights, config.top_p, 0);
  remove_from(FunnelToken::Removed::by_top_p);
  cut(weights, 1, config.min_p);
  remove_from(FunnelToken::Removed::by_min_p);
  return tokens;
}

double log_sum_exp(std::span<const float> logits) {
  const double max = checked_max(logits);
  double sum = 0;
  each_exp(logits, max, [&](double, double e) { sum += e; });
  return max + math::log(sum);
}

std::vector<std::int32_t> most_likely(std::span<const float> logits, int n) {
  if (n < 0) throw BadInput("sampler", "expected a number of log-probabilities >= 0, got {}", n);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  };
  const auto kept = std::min(logits.size(), static_cast<std::size_t>(n));
  std::vector<std::int32_t> best;  // a heap whose first element is the last of the best so far
  for (std::size_t i = 0; i < logits.size() && kept > 0; ++i) {
    const bool is_full = best.size() == kept;
    if (is_full && !(logits[i] > logit(best.front()))) continue;
    if (is_full) {
      std::pop_heap(best.begin(), best.end(), before);
      best.pop_back();
    }
    best.push_back(static_cast<std::int32_t>(i));
    std::push_heap(best.begin(), best.end(), before);
  }
  std::sort_heap(best.begin(), best.end(), before);
  return best;
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int n) {
  const double normalizer = log_sum_exp(logits);
  std::vector<TokenLogprob> top;
  for (const std::int32_t id : most_likely(logits, n)) {
    top.push_back({id, static_cast<double>(logits[static_cast<std::size_t>(id)]) - normalizer});
  }
  return top;
}

std::int64_t rank_of(std::span<const float> logits, std::int32_t id) {
  const auto own = logits.begin() + id;
  return std::count_if(logits.begin(), own, [&](float before) { return before >= *own; }) +
         std::count_if(own + 1, logits.end(), [&](float after) { return after > *own; });
}

double logprob(std::span<const float> logits, std::int32_t id) {
  if (id < 0 || static_cast<std::size_t>(id) >= logits.size()) {
    throw BadInput("sampler", "expected ids below {}, got {}", logits.size(), id);
  }
  return static_cast<double>(logits[static_cast<std::size_t>(id)]) - log_sum_exp(logits);
}

}  // namespace vitrine
