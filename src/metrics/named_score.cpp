#include "metrics/named_score.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace vitrine {
namespace {

constexpr std::size_t kSamples = 1000;
constexpr std::uint64_t kSeed = 1, kStream = std::uint64_t{0x70616972} << 32;  // "pair"

/// The value below which a fraction of the ascending values is, between two of them by their distance.
double quantile(const std::vector<double>& ascending, double fraction) {
  const double place = fraction * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] + (place - static_cast<double>(below)) * (ascending[above] - ascending[below]);
}

}  // namespace

std::vector<std::size_t> all_numbers(std::size_t n) {
  std::vector<std::size_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return numbers;
}

std::vector<PairedDifference> paired_differences(std::size_t n, const ScoreExamples& own, const ScoreExamples& other) {
  const std::vector<std::size_t> all = all_numbers(n);
  const std::vector<NamedScore> ours = own(all), theirs = other(all);
  std::vector<PairedDifference> result;
  std::vector<std::vector<double>> differences(ours.size());
  for (std::size_t k = 0; k < ours.size(); ++k) {
    result.push_back({ours[k].name, theirs[k].value, ours[k].value - theirs[k].value});
  }
  std::vector<std::size_t> sample(n);
  for (std::size_t s = 0; s < kSamples; ++s) {
    for (std::size_t i = 0; i < n; ++i) {
      const double u = uniform(kSeed, kStream + s, i);
      sample[i] = std::min(n - 1, static_cast<std::size_t>(u * static_cast<double>(n)));
    }
    const std::vector<NamedScore> a = own(sample), b = other(sample);
    for (std::size_t k = 0; k < ours.size(); ++k) {
      const double difference = a[k].value - b[k].value;
      if (std::isfinite(difference)) differences[k].push_back(difference);
    }
  }
  for (std::size_t k = 0; k < ours.size(); ++k) {
    std::sort(differences[k].begin(), differences[k].end());
    if (differences[k].empty()) {
      result[k].low = result[k].high = std::nan("");
      continue;
    }
    result[k].low = quantile(differences[k], 0.025);
    result[k].high = quantile(differences[k], 0.975);
  }
  return result;
}

}  // namespace vitrine
