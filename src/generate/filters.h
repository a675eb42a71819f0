// The filters of the sampler, which keep the most likely tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/math.h"
#include "generate/options.h"

namespace vitrine {

struct Candidate {
  double logit;  ///< Penalized, before temperature.
  std::int32_t id;
};

/// Candidates, most likely first, without tokens of probability 0. They are sorted as far as they are read: sorting a
/// vocabulary takes longer than everything else.
class Ranking {
 public:
  /// Begins anew with the scores of a vocabulary, at least one of them more than -inf.
  /// `chance`: the random number of steps that happen with a probability.
  void fill(const std::vector<double>& scores, double temperature, double chance) {
    all_.clear();
    all_.reserve(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] > -std::numeric_limits<double>::infinity())
        all_.push_back({scores[i], static_cast<std::int32_t>(i)});
    }
    largest_ = *std::max_element(scores.begin(), scores.end());
    temperature_ = temperature;
    chance_ = chance;
    n_sorted_ = 0;
    weights_.clear();
    total_.reset();
  }

  std::size_t size() const { return all_.size(); }
  double chance() const { return chance_; }
  /// √(mean (logit − mean)²) of all candidates, in the order that they have.
  double deviation() const {
    double sum = 0, squares = 0;
    const auto n = static_cast<double>(all_.size());
    for (const Candidate& candidate : all_) sum += candidate.logit;
    for (const Candidate& candidate : all_) squares += (candidate.logit - sum / n) * (candidate.logit - sum / n);
    return std::sqrt(squares / n);
  }
  const Candidate& operator[](std::size_t i) {
    if (i >= n_sorted_) sort_to(std::min(all_.size(), std::max<std::size_t>(i + 1, std::max<std::size_t>(64, 4 * i))));
    return all_[i];
  }
  /// The probability of a candidate, compared with that of the most likely one.
  double weight(std::size_t i) {
    while (weights_.size() <= i) weights_.push_back(weight_of((*this)[weights_.size()]));
    return weights_[i];
  }
  /// The sum of the weights, in an order that depends on the logits only: by id, or most likely first after a filter.
  double total() {
    if (!total_) {
      total_ = 0;
      for (const Candidate& candidate : all_) *total_ += weight_of(candidate);
    }
    return *total_;
  }
  /// Keeps the first n.
  void keep(std::size_t n) {
    if (n >= all_.size()) return;
    sort_to(std::max(n, n_sorted_));
    all_.resize(n);
    n_sorted_ = std::min(n_sorted_, n);
    total_.reset();
  }
  /// The same, with the sum of their weights, most likely first.
  void keep(std::size_t n, double total) {
    keep(n);
    total_ = total;
  }
  /// Keeps those for whose index keep() is true.
  template <class Keep>
  void keep_if(Keep keep) {
    sort();
    std::size_t n = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (keep(i)) all_[n++] = all_[i];
    }
    all_.resize(n);
    n_sorted_ = n;
    weights_.clear();
    total_.reset();
  }
  /// Leaves one token, whether it was a candidate or not.
  void keep_only(std::int32_t id) {
    all_ = {{largest_, id}};
    n_sorted_ = 1;
    weights_.clear();
    total_.reset();
  }
  void sort() { sort_to(all_.size()); }

 private:
  static bool more_likely(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }
  /// The maximum is subtracted first, so that no temperature, however small, overflows.
  double weight_of(const Candidate& candidate) const { return math::exp((candidate.logit - largest_) / temperature_); }
  void sort_to(std::size_t end) {
    if (end <= n_sorted_) return;
    const auto at = [&](std::size_t i) { return all_.begin() + static_cast<std::ptrdiff_t>(i); };
    if (end < all_.size()) std::nth_element(at(n_sorted_), at(end), all_.end(), more_likely);
    std::sort(at(n_sorted_), at(end), more_likely);
    n_sorted_ = end;
  }

  std::vector<Candidate> all_;
  std::vector<double> weights_;  // of the first candidates
  std::optional<double> total_;
  double largest_ = 0, temperature_ = 1, chance_ = 0;
  std::size_t n_sorted_ = 0;
};

struct Filter {
  const char* option;  ///< The option that sets it.
  /// Keeps at least one candidate of those that the filters before it have kept.
  void (*keep)(const SamplingConfig& config, Ranking& ranking);
};

/// In their order.
std::span<const Filter> filters();

}  // namespace vitrine
