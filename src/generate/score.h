// The logits of a whole text, chunk by chunk.
#pragma once

#include <functional>
#include <span>

#include "generate/generator.h"

namespace vitrine {

/// Hands the logits of the positions of `ids` from `begin` on to `receive` in ascending groups of rows: `logits`
/// `[n, vocab_size]` begins at position `first`. Memory does not grow with the text but for the KV cache. Throws
/// BadInput where the text is empty or exceeds the context (both numbers named).
void score(const GenerateContext& context, std::span<const std::int32_t> ids,
           const std::function<void(std::int64_t first, const Tensor& logits)>& receive, std::int64_t begin = 0);

}  // namespace vitrine
