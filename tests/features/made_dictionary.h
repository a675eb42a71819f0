// Dictionaries of random numbers.
#pragma once

#include <deque>
#include <vector>

#include "base/rng.h"
#include "model/sites.h"
#include "pass/dictionary.h"

namespace vitrine::test {

/// A dictionary whose parameters are in memory of its own.
class Made {
 public:
  Made(std::int64_t d, std::int64_t d_sae, std::uint64_t seed = 3) : seed_(seed) {
    own.architecture = "made";
    own.encoder = matrix(d_sae, d);
    own.encoder_bias = vector(d_sae);
    own.decoder = matrix(d_sae, d);
    own.decoder_bias = vector(d);
    own.subtracted = own.decoder_bias;
    own.input = own.output = BlockSite{1}(Site::resid_post);
  }
  Param matrix(std::int64_t rows, std::int64_t cols) {
    return {"m", "m", {rows, cols}, view_of(numbers(rows * cols), rows, cols, cols)};
  }
  Param vector(std::int64_t n) { return {"v", "v", {n}, view_of(numbers(n), 1, n, n)}; }

  Dictionary own;

 private:
  const float* numbers(std::int64_t n) {
    std::vector<float>& all = memory_.emplace_back();
    for (std::int64_t i = 0; i < n; ++i) {
      all.push_back(static_cast<float>(uniform(seed_, memory_.size(), static_cast<std::uint64_t>(i)) - 0.5));
    }
    return all.data();
  }
  std::uint64_t seed_;
  std::deque<std::vector<float>> memory_;
};

}  // namespace vitrine::test
