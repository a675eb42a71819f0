// The logits of a whole text, chunk by chunk.
#pragma once

#include <functional>
#include <span>

#include "generate/context.h"

namespace vitrine {

/// Receives logits `[n, vocab_size]` in ascending groups of rows; the first row belongs to position `first`.
using ReceiveRows = std::function<void(std::int64_t first, const Tensor& logits)>;

/// Throws BadInput for ids outside the vocabulary, and for more ids than fit into the cache.
void check_feed(const GenerateContext& context, const KvCache& cache, std::span<const std::int32_t> ids);

/// Appends `ids` to the sequence in `cache` and passes the logits of ids[begin …] to `receive`. Throws the exceptions
/// of check_feed() before it changes anything; after any other error the cache must be discarded.
void feed(const GenerateContext& context, KvCache& cache, std::span<const std::int32_t> ids, std::int64_t begin,
          const ReceiveRows& receive);

/// Passes the logits of the positions of `ids` from `begin` on to `receive`. Of the memory used, only the KV cache
/// grows with the text. Throws BadInput if the text is empty or exceeds the context (naming both numbers).
void score(const GenerateContext& context, std::span<const std::int32_t> ids, const ReceiveRows& receive,
           std::int64_t begin = 0);

}  // namespace vitrine
