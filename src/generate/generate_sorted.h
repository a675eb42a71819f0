// Many requests at once, the longest sources first.
#pragma once

#include <functional>
#include <span>

#include "generate/engine.h"

namespace vitrine {

/// Runs requests in the order of their sources' lengths, at most `batch` at a time, so that those of a pass have about
/// the same length. Calls receive(i, result) when request i ends. A request without a source has an empty result. The
/// results do not depend on `batch`. Throws the error of a request that fails.
void generate_sorted(const GenerateContext& context, std::span<const GenerateRequest> requests, std::int64_t batch,
                     const std::function<void(std::size_t i, const GenerateResult& result)>& receive);

}  // namespace vitrine
