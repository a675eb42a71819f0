// How many rows a round may have, so that it takes about a given time: the token budget of a step of continuous
// batching with chunked prefill.
#pragma once

#include <algorithm>
#include <cstdint>

namespace vitrine {

/// Follows the speed of the machine: a round that was full and took twice the time halves the next one.
class RoundBudget {
 public:
  explicit RoundBudget(double seconds) : seconds_(seconds) {}

  /// Of a round in which `n_decoding` sequences get their next token: these rows come first, and prompts have at least
  /// one row. Without them there is nobody whom a long round would keep waiting.
  std::int64_t rows(std::int64_t n_decoding) const {
    if (n_decoding == 0) return kMax;
    return std::max(n_decoding + 1, static_cast<std::int64_t>(rows_));
  }
  /// A round had `rows` rows, prompts among them, and took `seconds`.
  void measure(std::int64_t rows, double seconds) {
    const auto n = static_cast<double>(rows);
    const double change = std::clamp(seconds_ / std::max(seconds, 1e-6), 0.1, 2.0);
    const bool was_full = n >= 0.75 * rows_;
    if (was_full || change < 1) rows_ = std::clamp(std::min(n, 2 * rows_) * change, 1.0, static_cast<double>(kMax));
  }

 private:
  static constexpr std::int64_t kMax = 1024;

  double seconds_;
  double rows_ = 64;
};

}  // namespace vitrine
