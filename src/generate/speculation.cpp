#include "generate/speculation.h"

#include <algorithm>

namespace vitrine {

void Acceptance::count(std::size_t kind, std::int64_t accepted, bool was_wrong) {
  constexpr double kKept = 0.95, kExpected = 0.5, kLeast = 2;
  Counts& own = kinds_[kind];
  const auto add = [&](double right) {
    own = {own.right * kKept + right, own.all * kKept + 1};
    // What is known of a kind never falls below what was expected of it.
    if (own.all < kLeast) own = {own.right + kExpected * (kLeast - own.all), kLeast};
  };
  for (std::int64_t i = 0; i < accepted; ++i) add(1);
  if (was_wrong) add(0);
}

std::vector<std::int64_t> numbers_to_read(std::span<const SpeculationOffer> offers, const RowCosts& costs) {
  std::vector<std::int64_t> numbers(offers.size(), 0), best = numbers;
  const bool has_offer = std::any_of(offers.begin(), offers.end(), [](const auto& offer) { return offer.most > 0; });
  if (!has_offer || !costs.is_measured()) return best;
  constexpr double kLeastGain = 1.02;          // below, the measurement is not exact enough to say that there is one
  std::vector<double> reached(offers.size());  // the probability that the next id of the offer is accepted
  for (std::size_t i = 0; i < offers.size(); ++i) reached[i] = offers[i].rate;
  const auto n = static_cast<std::int64_t>(offers.size());
  double tokens = static_cast<double>(n), drafting = 0;
  double fastest = kLeastGain * tokens / costs.seconds(n);
  for (std::int64_t rows = n + 1; rows <= n + kMostProposedInPass; ++rows) {
    std::size_t next = offers.size();
    for (std::size_t i = 0; i < offers.size(); ++i) {
      const bool is_open = numbers[i] < offers[i].most && reached[i] > 0;
      if (is_open && (next == offers.size() || reached[i] > reached[next])) next = i;
    }
    if (next == offers.size()) break;
    ++numbers[next];
    tokens += reached[next];
    reached[next] *= offers[next].rate;
    drafting += offers[next].seconds_per_id;
    const double speed = tokens / (costs.seconds(rows) + drafting);
    if (speed <= fastest) continue;
    fastest = speed;
    best = numbers;
  }
  return best;
}

}  // namespace vitrine
