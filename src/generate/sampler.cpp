#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/math.h"
#include "base/rng.h"
#include "generate/dry.h"
#include "generate/each_exp.h"
#include "generate/filters.h"
#include "generate/infill_choice.h"

namespace vitrine {
namespace {

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

/// The temperature that a config has for these scores. Sums are in the order of ids.
double temperature_of(const SamplingConfig& config, const std::vector<double>& scores) {
  if (config.dynatemp_range == 0) return config.temperature;
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0, weighted = 0, n = 0;
  for (const double score : scores) {
    const double below = score - largest;
    if (std::isinf(below)) continue;
    n += 1;
    sum += math::exp(below);
    weighted += math::exp(below) * below;
  }
  const double lowest = std::max(0.0, config.temperature - config.dynatemp_range);
  const double highest = config.temperature + config.dynatemp_range;
  const double entropy = math::log(sum) - weighted / sum;
  const double part = n > 1 ? std::clamp(entropy / math::log(n), 0.0, 1.0) : 0;
  constexpr double kLowest = 1e-9;  // nearly greedy, yet a divisor
  const double power = part > 0 ? math::pow(part, config.dynatemp_exponent) : config.dynatemp_exponent == 0 ? 1 : 0;
  return std::max(kLowest, lowest + (highest - lowest) * power);
}

}  // namespace

/// The logits after the bias and the penalties, in memory that is reused.
class ChangedLogits {
 public:
  const std::vector<double>& of(std::span<const float> logits, std::span<const std::int32_t> history,
                                std::size_t n_generated, const SamplingConfig& config) {
    scores_.assign(logits.begin(), logits.end());
    for (const auto& [id, bias] : config.logit_bias) scores_[index_of_id(id, scores_.size(), "logit bias")] += bias;
    const std::span<const std::int32_t> all = history;
    history = penalized(history, config);
    if (config.repeat_penalty != 1) penalize_repeats(history, config.repeat_penalty);
    if (config.frequency_penalty != 0 || config.presence_penalty != 0) {
      penalize_generated(history.last(std::min(n_generated, history.size())), config);
    }
    if (config.dry_multiplier != 0) penalize_repetitions(all, config);
    return scores_;
  }

 private:
  void penalize_repeats(std::span<const std::int32_t> history, double penalty) {
    is_penalized_.assign(scores_.size(), false);
    for (const std::int32_t id : history) {
      const std::size_t i = index_of_id(id, scores_.size(), "history");
      if (is_penalized_[i]) continue;
      is_penalized_[i] = true;
      double& score = scores_[i];
      const bool was_infinite = std::isinf(score);
      score = score > 0 ? score / penalty : score * penalty;
      if (std::isinf(score) && !was_infinite) {
        throw BadInput("sampler", "a repeat_penalty of {} takes the logit of id {} out of range", penalty, id);
      }
    }
  }

  void penalize_generated(std::span<const std::int32_t> generated, const SamplingConfig& config) {
    sorted_.assign(generated.begin(), generated.end());
    std::sort(sorted_.begin(), sorted_.end());
    for (auto first = sorted_.begin(); first != sorted_.end();) {
      const auto end = std::upper_bound(first, sorted_.end(), *first);
      const auto n = static_cast<double>(end - first);
      scores_[index_of_id(*first, scores_.size(), "history")] -= n * config.frequency_penalty + config.presence_penalty;
      first = end;
    }
  }

  void penalize_repetitions(std::span<const std::int32_t> ids, const SamplingConfig& config) {
    if (config.dry_penalty_last_n >= 0) {
      ids = ids.last(std::min(ids.size(), static_cast<std::size_t>(config.dry_penalty_last_n)));
    }
    constexpr double kMaxPower = 88.7;  // of e, as in llama.cpp's float32
    const auto allowed = static_cast<std::size_t>(config.dry_allowed_length);
    const std::size_t limit = config.dry_breakers ? config.dry_breakers->limit(ids) : ids.size();
    const double log_base = math::log(std::max(config.dry_base, 1e-30));
    for (const auto& [id, length] : dry_repeats(ids, allowed, limit)) {
      double power = static_cast<double>(length - allowed) * log_base;
      if (config.dry_base > 1.000001) power = std::min(power, kMaxPower);
      scores_[index_of_id(id, scores_.size(), "history")] -= config.dry_multiplier * math::exp(power);
    }
  }

  std::vector<double> scores_;
  std::vector<bool> is_penalized_;
  std::vector<std::int32_t> sorted_;
};

struct Sampler::Scratch {
  std::vector<float> scores;
  ChangedLogits changed;
  Ranking ranking;
  std::optional<std::int32_t> taken;  // the most likely token, without a draw
};

Sampler::Sampler() : scratch_(std::make_unique<Scratch>()) {}
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler::~Sampler() = default;

std::span<float> Sampler::scores(std::size_t vocab_size) {
  scratch_->scores.resize(vocab_size);
  return scratch_->scores;
}

std::int32_t Sampler::sample(std::span<const float> logits, std::span<const std::int32_t> history,
                             const SamplingConfig& config, const DrawKey& key, std::size_t n_generated) {
  const double largest = checked_max(logits);
  if (config.temperature == 0 && !config.changes_logits()) {
    const auto first = std::find(logits.begin(), logits.end(), largest);
    return *(scratch_->taken = static_cast<std::int32_t>(first - logits.begin()));
  }
  const std::vector<double>& scores = scratch_->changed.of(logits, history, n_generated, config);
  if (config.temperature == 0) {
    const auto first = std::max_element(scores.begin(), scores.end());
    return *(scratch_->taken = static_cast<std::int32_t>(first - scores.begin()));
  }
  scratch_->taken.reset();
  Ranking& ranking = scratch_->ranking;
  ranking.fill(scores, temperature_of(config, scores), uniform(key.seed, key.sequence, key.step, 1));
  for (const Filter& filter : filters()) filter.keep(config, ranking);
  if (config.infill != nullptr) config.infill->keep(ranking);
  const double target = uniform(key.seed, key.sequence, key.step) * ranking.total();
  double sum = 0;
  std::int32_t last = 0;
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    const double own = ranking.weight(i);
    if (own == 0) break;
    last = ranking[i].id;
    sum += own;
    if (sum > target) break;
  }
  return last;  // if the target is not reached, then because the total was rounded in another order
}

std::vector<TokenLogprob> Sampler::drawn_from(int n, std::int32_t id) {
  if (scratch_->taken) return {{*scratch_->taken, 0}};
  Ranking& ranking = scratch_->ranking;
  std::vector<TokenLogprob> tokens;
  bool has_id = false;
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    const bool is_first = i < static_cast<std::size_t>(n);
    if (!is_first && has_id) break;
    if (!is_first && ranking[i].id != id) continue;
    tokens.push_back({ranking[i].id, math::log(ranking.weight(i) / ranking.total())});
    has_id = has_id || ranking[i].id == id;
  }
  return tokens;
}

std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history, const SamplingConfig& config,
                    const DrawKey& key, std::size_t n_generated) {
  config.validate();
  return Sampler().sample(logits, history, config, key, n_generated);
}

std::vector<FunnelToken> sampling_funnel(std::span<const float> logits, std::span<const std::int32_t> history,
                                         const SamplingConfig& config) {
  config.validate();
  if (config.temperature == 0) throw BadInput("temperature", "expected a number > 0 for a funnel, got 0");
  checked_max(logits);
  constexpr std::size_t kNoneGenerated = 0;  // a funnel shows the first token after a prompt
  ChangedLogits changed;
  Ranking ranking;
  const std::vector<double>& scores = changed.of(logits, history, kNoneGenerated, config);
  ranking.fill(scores, temperature_of(config, scores), 0);  // XTC takes place
  ranking.sort();
  std::vector<FunnelToken> tokens;
  tokens.reserve(ranking.size());
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    tokens.push_back({ranking[i].id, ranking[i].logit, ranking.weight(i) / ranking.total()});
  }
  int number = 0;
  for (const Filter& filter : filters()) {
    filter.keep(config, ranking);
    ++number;
    std::size_t next = 0;  // kept ones are in the same order
    for (FunnelToken& token : tokens) {
      if (token.removed != 0) continue;
      if (next < ranking.size() && ranking[next].id == token.id) {
        ++next;
      } else {
        token.removed = number;
      }
    }
  }
  return tokens;
}

double log_sum_exp(std::span<const float> logits) {
  const double max = checked_max(logits);
  double sum = 0;
  each_exp(logits, max, [&](double, double e) { sum += e; });
  return max + math::log(sum);
}

std::vector<std::int32_t> max_likely(std::span<const float> logits, int n) {
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
  for (const std::int32_t id : max_likely(logits, n)) {
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
