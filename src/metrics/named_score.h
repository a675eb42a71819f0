// Scores of examples under their names, and how sure the difference of two models is.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace vitrine {

struct NamedScore {
  std::string name;
  double value = 0;  ///< NaN: the examples have none.
};

/// The scores of some examples, by their numbers, which may repeat.
using ScoreExamples = std::function<std::vector<NamedScore>(std::span<const std::size_t> numbers)>;

/// The numbers 0 to n − 1.
std::vector<std::size_t> all_numbers(std::size_t n);

struct PairedDifference {
  std::string name;
  double other = 0, difference = 0;  ///< The other model's score, and how much the first model's exceeds it.
  double low = 0, high = 0;          ///< 95 % of the differences of resampled examples are between them.
};

/// The differences of two models on the same `n` examples, by the paired bootstrap: both are scored on 1,000 samples of
/// the examples with replacement, which are the same for both and in each run. Source: Koehn 2004.
std::vector<PairedDifference> paired_differences(std::size_t n, const ScoreExamples& own, const ScoreExamples& other);

}  // namespace vitrine
