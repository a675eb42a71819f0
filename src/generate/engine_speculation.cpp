// How many proposed ids the sequences of a step read.
#include <algorithm>

#include "generate/engine_feed.h"

namespace vitrine {

/// None while prompts are read: there the rows of a pass are as costly as they are many.
void Engine::take_proposals(std::span<Sequence* const> sequences) {
  if (context_.speculation == nullptr) return;
  const Speculation& speculation = *context_.speculation;
  const bool reads = std::any_of(sequences_.begin(), sequences_.end(), [](const auto& entry) {
    return !entry.second->paused && !entry.second->has_ended() && entry.second->is_reading();
  });
  std::int64_t left = reads || !speculation.may_pay(std::ssize(sequences)) ? 0 : kMostProposedInPass;
  std::vector<SpeculationOffer> offers;
  for (Sequence* const s : sequences) offers.push_back(left > 0 ? s->offer() : SpeculationOffer());
  std::vector<std::int64_t> numbers;
  if (speculation.fixed) {
    for (const SpeculationOffer& offer : offers) numbers.push_back(std::min(*speculation.fixed, offer.most));
  } else {
    numbers = numbers_to_read(offers, speculation.costs);
  }
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::int64_t n = std::clamp<std::int64_t>(left, 0, numbers[i]);
    sequences[i]->take_proposals(n);
    left -= n;
  }
}

}  // namespace vitrine
