// The search for texts that the caller and the checkpoint define together.
#pragma once

#include "checkpoint/load.h"
#include "generate/engine.h"

namespace vitrine {

/// What the caller sets; absent: the checkpoint's value, else the default.
struct SearchOverrides {
  std::optional<int> n_beams;
  int n_best = 1;
  std::optional<double> length_penalty;
  std::optional<std::string> early_stop;  ///< "no", "yes" or "never".
  std::optional<std::int64_t> min_tokens, no_repeat_ngram, max_tokens;
  std::optional<std::int32_t> forced_first;
};

/// Sets the beams, the rules and the number of tokens of a request whose prompt is set. Without max_tokens of either,
/// the request's own value remains. `samples`: the caller wants to sample, so the checkpoint's beams do not apply.
void choose_search(const SearchOverrides& caller, const SearchDefaults& checkpoint, bool samples,
                   GenerateRequest& request);

}  // namespace vitrine
