// Chooses the next token from logits: filters, reproducible sampling, and log-probabilities.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace vitrine {

/// How a token is chosen, in these steps:
///   1. logit bias: adds the bias of each id that has one;
///   2. repeat penalty: once for each distinct id of the history, logit > 0 ? logit / penalty : logit * penalty
///      (Keskar et al., "CTRL", 2019; the formula of Hugging Face transformers);
///   3. frequency and presence penalties: for each distinct id of the generated tokens, which is among them n times,
///      logit - n * frequency_penalty - presence_penalty (OpenAI's formula);
///   4. temperature: logit / temperature;
///   5. top-k: keeps the k most likely tokens;
///   6. top-p: of these, keeps the smallest set of the most likely tokens whose probabilities add up to at least p;
///   7. min-p: of these, keeps the tokens at least min_p times as likely as the most likely one;
///   8. draws one of the remaining tokens, in proportion to its probability.
/// Candidates are ordered by (penalized logit descending, id ascending); every filter and every sum uses this order.
/// Probabilities are computed in double precision. A token with a logit of -inf is never chosen. At temperature 0, the
/// token with the largest penalized logit is chosen, and among equal logits the one with the lowest id, without steps 4
/// to 8 and without a random number.
struct SamplingConfig {
  double temperature = 0.8;                                   ///< >= 0; 0 is greedy
  int top_k = 40;                                             ///< >= 0; 0 is off
  double top_p = 0.95;                                        ///< in (0, 1]; 1 is off
  double min_p = 0;                                           ///< in [0, 1]; 0 is off
  double repeat_penalty = 1;                                  ///< > 0; 1 is off
  double frequency_penalty = 0;                               ///< finite; 0 is off
  double presence_penalty = 0;                                ///< finite; 0 is off
  std::vector<std::pair<std::int32_t, double>> logit_bias{};  ///< ids and finite summands

  bool changes_logits() const {
    return repeat_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0 || !logit_bias.empty();
  }
  /// Throws BadInput for a value outside its range, naming the option and the range.
  void validate() const;
};

/// The key of a random number: the same key gives the same number on any machine.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t sequence = 0;  ///< which text of a batch
  std::uint64_t step = 0;      ///< which token of that text
};

/// Chooses one token. `logits` [vocab_size] are those of the model, unmodified; the repeat penalty applies to the ids
/// of `history`, of which the last `n_generated` are generated tokens. Throws BadInput for an invalid config, for an id
/// of the history outside the vocabulary (if there is a penalty), if a logit is NaN or +inf, and if every logit is
/// -inf.
std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history, const SamplingConfig& config,
                    const DrawKey& key, std::size_t n_generated = 0);

/// What the steps of sample() make of one token.
struct FunnelToken {
  enum class Removed : std::uint8_t { no, by_top_k, by_top_p, by_min_p };

  std::int32_t id = 0;
  double logit = 0;  ///< After the bias and the repeat penalty, before temperature.
  double prob = 0;   ///< After temperature, of all tokens.
  Removed removed = Removed::no;
};

/// Every possible token in the order of the steps, most likely first. The tokens that are not removed are those from
/// which sample() draws if no token of the history is a generated one. Throws BadInput as sample() does, and for a
/// temperature of 0, at which nothing is drawn.
std::vector<FunnelToken> sampling_funnel(std::span<const float> logits, std::span<const std::int32_t> history,
                                         const SamplingConfig& config);

struct TokenLogprob {
  std::int32_t id = 0;
  double logprob = 0;  ///< natural logarithm; -inf for a logit of -inf
};

/// The `n` most likely tokens (all if n > vocab_size), most likely first, equal ones in ascending order of ids, by
/// log-softmax of the raw logits. Sums are computed in double precision, in the order of ids. Throws BadInput for n < 0
/// and for logits that sample() rejects.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int n);
/// Their ids alone.
std::vector<std::int32_t> most_likely(std::span<const float> logits, int n);

/// log Σ exp(logit), which log-probabilities subtract. Throws BadInput as top_logprobs() does.
double log_sum_exp(std::span<const float> logits);

/// The number of tokens that top_logprobs() puts before `id`, which is in the vocabulary.
std::int64_t rank_of(std::span<const float> logits, std::int32_t id);

/// The log-probability of one token, computed in the same way. Also throws BadInput for an `id` outside the vocabulary.
double logprob(std::span<const float> logits, std::int32_t id);

}  // namespace vitrine
