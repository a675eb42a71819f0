// The search for texts that the caller and the checkpoint define together.
#pragma once

#include "checkpoint/load.h"
#include "generate/engine.h"
#include "generate/text_search.h"

namespace vitrine {

/// What the caller sets; absent: the checkpoint's value, else the default.
struct SearchOverrides : TextSearch {
  std::optional<std::int64_t> max_tokens;
  std::optional<std::int32_t> forced_first;
};

/// Sets the beams, the rules and the number of tokens of a request whose prompt is set. Without max_tokens of either,
/// the request's own value remains. `samples`: the caller wants to sample, so the checkpoint's beams do not apply.
/// Throws BadInput for another early_stop than these.
void choose_search(const SearchOverrides& caller, const SearchDefaults& checkpoint, bool samples,
                   GenerateRequest& request);

}  // namespace vitrine
