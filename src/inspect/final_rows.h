// The distributions of the final state, and how far those of other states are from them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/each_exp.h"
#include "generate/sampler.h"
#include "parallel/thread_pool.h"
#include "tensor/tensor.h"

namespace vitrine {

/// Log-probabilities and probabilities of rows of logits, `[rows, vocab_size]`, in double precision.
class FinalRows {
 public:
  FinalRows(const Tensor& logits, ThreadPool& pool)
      : n_vocab_(static_cast<std::size_t>(logits.row_size())),
        log_probs_(static_cast<std::size_t>(logits.rows()) * n_vocab_),
        probs_(log_probs_.size()) {
    pool.parallel_for(logits.rows(), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::span<const float> own(logits.row(row), n_vocab_);
        const double normalizer = log_sum_exp(own);
        std::size_t at = first(row);
        each_exp(own, normalizer, [&](double log_prob, double prob) {
          log_probs_[at] = log_prob;
          probs_[at++] = prob;
        });
      }
    });
  }

  std::span<const double> probabilities(std::int64_t row) const {
    return std::span(probs_).subspan(first(row), n_vocab_);
  }
  /// KL(final row ‖ the distribution of `logits`), in nats.
  double divergence(std::int64_t row, std::span<const float> logits, double normalizer) const {
    const std::size_t begin = first(row);
    double sum = 0;
    for (std::size_t i = 0; i < n_vocab_; ++i) {
      const double p = probs_[begin + i];
      if (p > 0) sum += p * (log_probs_[begin + i] - (static_cast<double>(logits[i]) - normalizer));
    }
    return sum;
  }

 private:
  std::size_t first(std::int64_t row) const { return static_cast<std::size_t>(row) * n_vocab_; }

  std::size_t n_vocab_;
  std::vector<double> log_probs_, probs_;
};

}  // namespace vitrine
