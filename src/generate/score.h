// The logits of a whole text, chunk by chunk.
#pragma once

#include <functional>
#include <span>

#include "generate/context.h"

namespace vitrine {

/// Receives logits `[n, vocab_size]` in ascending groups of rows; the first row belongs to position `first`.
using ReceiveRows = std::function<void(std::int64_t first, const Tensor& logits)>;

/// Throws BadInput for ids outside the vocabulary, and for more of them than the cache can take.
void check_feed(const GenerateContext& context, const KvCache& cache, std::span<const std::int32_t> ids);

/// Appends `ids` to the sequence in `cache` and hands on the logits of ids[begin …]. Throws as check_feed() does before
/// it runs anything; after any other error the cache must be discarded.
void feed(const GenerateContext& context, KvCache& cache, std::span<const std::int32_t> ids, std::int64_t begin,
          const ReceiveRows& receive);

/// Hands on the logits of the positions of `ids` from `begin` on. Only the KV cache grows with the text. Throws
/// BadInput where the text is empty or exceeds the context (naming both numbers).
void score(const GenerateContext& context, std::span<const std::int32_t> ids, const ReceiveRows& receive,
           std::int64_t begin = 0);

}  // namespace vitrine
