// The logits of a whole text, chunk by chunk, and the most likely next tokens after each of its prefixes.
#pragma once

#include <functional>
#include <span>

#include "generate/context.h"
#include "generate/sampler.h"

namespace vitrine {

/// Receives logits `[n, vocab_size]` in ascending groups of rows; the first row belongs to position `first`.
using ReceiveRows = std::function<void(std::int64_t first, const Tensor& logits)>;

/// Throws BadInput for ids outside the vocabulary, and for more ids than fit into the cache.
void check_feed(const GenerateContext& context, const KvCache& cache, std::span<const std::int32_t> ids);

/// Appends the ids to the sequence in `cache` and passes the logits of ids[begin …] to `receive`. The first tokens of a
/// sequence come with its source, if the model has an encoder. Throws the exceptions of check_feed() before it changes
/// anything; after any other error the cache must be discarded.
void feed(const GenerateContext& context, KvCache& cache, const Tokens& tokens, std::int64_t begin,
          const ReceiveRows& receive);

/// Passes the logits of the positions of the ids from `begin` on to `receive`. Of the memory used, only the KV cache
/// grows with the text. Throws BadInput if the text is empty or exceeds the context (naming both numbers).
/// The last `n_padding` tokens of the model's first stack are padding.
void score(const GenerateContext& context, const Tokens& tokens, const ReceiveRows& receive, std::int64_t begin = 0,
           std::int64_t n_padding = 0);

/// Receives, in ascending order, the most likely tokens after ids[0 … position], as top_logprobs ranks them.
using ReceivePrediction = std::function<void(std::int64_t position, const std::vector<TokenLogprob>& top)>;

/// The `n` most likely next tokens after every prefix of `ids`, in one pass over the text. Throws BadInput as score()
/// and top_logprobs() do.
void predict(const GenerateContext& context, const Tokens& tokens, int n, const ReceivePrediction& receive,
             std::int64_t n_padding = 0);

/// Receives the `n` most likely tokens in place of every `mask_id` in the ids, in ascending positions. `receive_next`,
/// if given, receives the probability that the second part of the text follows the first. Throws BadInput if there is
/// no mask, and Unsupported if the model does not attend to later tokens or does not predict the next sentence.
void predict_masked(const GenerateContext& context, const Tokens& tokens, std::int32_t mask_id, int n,
                    const ReceivePrediction& receive, const std::function<void(double)>& receive_next = {});

}  // namespace vitrine
