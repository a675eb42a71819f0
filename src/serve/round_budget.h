// How many rows a round may have, so that it takes about a given time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace vitrine {

/// What else a round of a model keeps waiting.
struct RoundShare {
  std::int64_t n_models = 1;   ///< That have work, this one among them: each has a part of the time of a round.
  bool others_decode = false;  ///< Sequences of other models wait for their next token.
};

/// Follows the speed of the machine: a round that was full and took twice the time halves the next one.
class RoundBudget {
 public:
  static constexpr std::int64_t kMax = 1024;  ///< Rows, where nobody waits for a next token.

  explicit RoundBudget(double seconds) : seconds_(seconds) {}

  /// Of a round in which `n_decoding` sequences get their next token: these rows come first, and prompts have at least
  /// one row. Without them, and without those of other models, there is nobody whom a long round would keep waiting.
  std::int64_t rows(std::int64_t n_decoding, const RoundShare& share = {}) const {
    if (n_decoding == 0 && !share.others_decode) return kMax;
    return std::max(n_decoding + 1, static_cast<std::int64_t>(rows_ / static_cast<double>(share.n_models)));
  }
  /// A round had `rows` rows, prompts among them, and took `seconds`.
  void measure(std::int64_t rows, double seconds, const RoundShare& share = {}) {
    const auto n_models = static_cast<double>(share.n_models);
    const double n = static_cast<double>(rows) * n_models;  // as if the round had had the whole time
    const double change = std::clamp(seconds_ / std::max(seconds * n_models, 1e-6), 0.1, 2.0);
    const bool was_full = n >= 0.75 * rows_;
    if (was_full || change < 1) rows_ = std::clamp(std::min(n, 2 * rows_) * change, 1.0, static_cast<double>(kMax));
  }

 private:
  double seconds_;
  double rows_ = 64;
};

}  // namespace vitrine
