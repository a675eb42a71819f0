#include "generate/infill_choice.h"

#include <string_view>

namespace vitrine {

/// The probabilities of the candidates after those that begin alike have been joined; 0: joined to another one.
std::vector<double> InfillChoice::joined(Ranking& ranking) const {
  std::vector<double> probs;
  std::vector<std::string_view> texts;
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    const std::int32_t id = ranking[i].id;
    probs.push_back(ranking.weight(i) / ranking.total());
    texts.push_back(id < vocabulary_->size() ? vocabulary_->bytes(id) : std::string_view());
  }
  for (std::size_t i = 0; i < probs.size(); ++i) {
    for (std::size_t j = 0; j < probs.size() && probs[i] > 0; ++j) {
      if (i == j || probs[j] == 0 || texts[i].empty() || !texts[j].starts_with(texts[i])) continue;
      const bool takes = probs[j] <= probs[i];
      probs[takes ? i : j] += probs[takes ? j : i];
      probs[takes ? j : i] = 0;
    }
  }
  return probs;
}

void InfillChoice::keep(Ranking& ranking) const {
  double p_stop = 0;
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    if (is_stop(ranking[i].id)) p_stop += ranking.weight(i) / ranking.total();
  }
  if (3 * p_stop * static_cast<double>(ranking.size()) > 1 - p_stop) {
    return ranking.keep_if([&](std::size_t i) { return is_stop(ranking[i].id); });
  }
  std::vector<double> probs = joined(ranking);
  const auto remains = [&](std::size_t i, double least) { return is_stop(ranking[i].id) || probs[i] >= least; };
  constexpr double kLeast = 0.2;
  double sum = 0, n_texts = 0;
  for (std::size_t i = 0; i < probs.size(); ++i) {
    if (!remains(i, kLeast)) continue;
    sum += probs[i];
    if (!is_stop(ranking[i].id)) n_texts += 1;
  }
  if (n_texts == 0) return ranking.keep_only(stop_ids_.front());
  const double least = std::max(kLeast, sum / (n_texts + 1));
  ranking.keep_if([&](std::size_t i) { return remains(i, least); });
}

}  // namespace vitrine
