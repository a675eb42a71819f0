// The step "infill" of llama-server's sampler, which editors use for the middle of a text: it ends the text early, and
// takes of tokens that begin alike the likeliest one. Source: llama.cpp's sampler of this name.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "constrain/vocabulary.h"
#include "generate/filters.h"

namespace vitrine {

/// Immutable, shared by the sequences of a request.
class InfillChoice {
 public:
  /// `stop_ids`: at least one.
  InfillChoice(std::shared_ptr<const constrain::Vocabulary> vocabulary, std::vector<std::int32_t> stop_ids)
      : vocabulary_(std::move(vocabulary)), stop_ids_(std::move(stop_ids)) {}

  /// Comes after all filters. If to end the text is likely (3 · p_end · n > p_text of n candidates), the candidates
  /// that end it remain. Else candidates one of which begins with the other are joined in the likelier one, and those
  /// remain that have a probability of at least 0.2, and then, of m, at least 1 / (m + 1) of what remains; those that
  /// end the text always do. If no text remains, the text ends.
  void keep(Ranking& ranking) const;

 private:
  bool is_stop(std::int32_t id) const { return std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end(); }
  std::vector<double> joined(Ranking& ranking) const;

  std::shared_ptr<const constrain::Vocabulary> vocabulary_;
  std::vector<std::int32_t> stop_ids_;
};

}  // namespace vitrine
