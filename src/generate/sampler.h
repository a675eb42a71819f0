// Chooses the next token from logits: filters, reproducible sampling, and log-probabilities.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "generate/options.h"

namespace vitrine {

/// The key of a random number: the same key gives the same number on any machine.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t sequence = 0;  ///< which text of a batch
  std::uint64_t step = 0;      ///< which token of that text
};

/// The last ids of a text, at which the penalties look.
inline std::span<const std::int32_t> penalized(std::span<const std::int32_t> ids, const SamplingConfig& config) {
  const auto n = static_cast<std::size_t>(config.repeat_last_n);  // -1: all
  return ids.last(std::min(n, ids.size()));
}

/// Chooses one token. `logits` [vocab_size] are those of the model, unmodified; the repeat penalty applies to the ids
/// of `history`, of which the last `n_generated` are generated tokens. Throws BadInput for an invalid config, for an id
/// of the history outside the vocabulary (if there is a penalty), if a logit is NaN or +inf, and if every logit is
/// -inf.
std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history, const SamplingConfig& config,
                    const DrawKey& key, std::size_t n_generated = 0);

struct TokenLogprob {
  std::int32_t id = 0;
  double logprob = 0;  ///< natural logarithm; -inf for a logit of -inf
};

/// The same for valid configs, one token after another: it keeps the memory of the steps, some 24 bytes for each id of
/// the vocabulary.
class Sampler {
 public:
  Sampler();
  Sampler(Sampler&&) noexcept;
  ~Sampler();

  std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history,
                      const SamplingConfig& config, const DrawKey& key, std::size_t n_generated = 0);
  /// The `n` most likely of the tokens from which the last call of sample() drew, most likely first, with the
  /// logarithms of the probabilities that they had; at temperature 0 only the one that it took. If `id` is not among
  /// the first n, it comes after them, if it could be drawn.
  std::vector<TokenLogprob> drawn_from(int n, std::int32_t id);
  /// Memory for a score of each id, which the caller may use until the next call.
  std::span<float> scores(std::size_t vocab_size);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

/// What the steps of sample() make of one token.
struct FunnelToken {
  std::int32_t id = 0;
  double logit = 0;  ///< After the bias and the repeat penalty, before temperature.
  double prob = 0;   ///< After temperature, of all tokens.
  int removed = 0;   ///< The number of the filter that removed it: top-k is 1, top-p 2, and so on; 0: none.
};

/// Every possible token in the order of the steps, most likely first. The tokens that are not removed are those from
/// which sample() draws if no token of the history is a generated one. Throws BadInput as sample() does, and for a
/// temperature of 0, at which nothing is drawn.
std::vector<FunnelToken> sampling_funnel(std::span<const float> logits, std::span<const std::int32_t> history,
                                         const SamplingConfig& config);

/// The `n` most likely tokens (all if n > vocab_size), most likely first, equal ones in ascending order of ids, by
/// log-softmax of the raw logits. Sums are computed in double precision, in the order of ids. Throws BadInput for n < 0
/// and for logits that sample() rejects.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int n);
/// Their ids alone.
std::vector<std::int32_t> max_likely(std::span<const float> logits, int n);

/// log Σ exp(logit), which log-probabilities subtract. Throws BadInput as top_logprobs() does.
double log_sum_exp(std::span<const float> logits);

/// The number of tokens that top_logprobs() puts before `id`, which is in the vocabulary.
std::int64_t rank_of(std::span<const float> logits, std::int32_t id);

/// The log-probability of one token, computed in the same way. Also throws BadInput for an `id` outside the vocabulary.
double logprob(std::span<const float> logits, std::int32_t id);

}  // namespace vitrine
