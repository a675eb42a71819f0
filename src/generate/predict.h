// The most likely next tokens after every prefix of a text.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "generate/context.h"
#include "generate/sampler.h"

namespace vitrine {

/// Receives, in ascending order, the most likely tokens after ids[0 … position], as top_logprobs ranks them.
using ReceivePrediction = std::function<void(std::int64_t position, const std::vector<TokenLogprob>& top)>;

/// The `n` most likely next tokens after every prefix of `ids`, in one pass over the text. Throws BadInput as score()
/// and top_logprobs() do.
void predict(const GenerateContext& context, std::span<const std::int32_t> ids, int n,
             const ReceivePrediction& receive);

}  // namespace vitrine
