// Choosing the next token from logits: the documented filters, a draw that can be repeated, and log-probabilities.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vitrine {

/// How a token is chosen. The steps, in this order:
///   1. repeat penalty: for every distinct id of the history, once, logit > 0 ? logit / penalty : logit * penalty
///      (Keskar et al., "CTRL", 2019; the formula of Hugging Face transformers);
///   2. temperature: logit / temperature;
///   3. top-k: the k most likely tokens stay;
///   4. top-p: of these, the smallest set of the most likely stays whose probability reaches p, the token that crosses
///      it included;
///   5. min-p: of these, tokens at least min_p times as likely as the most likely one stay;
///   6. one token is drawn from what is left, in proportion to its probability.
/// Candidates are ordered by (penalized logit descending, id ascending); every cut and every sum runs in this order.
/// Probabilities are double. Logits of -inf are tokens that are never chosen. At temperature 0 the largest penalized
/// logit is taken, the lowest id among equals; steps 2 to 6 fall away and no random number is used.
struct SamplingConfig {
  double temperature = 0.8;   ///< >= 0; 0 is greedy
  int top_k = 40;             ///< >= 0; 0 is off
  double top_p = 0.95;        ///< in (0, 1]; 1 is off
  double min_p = 0;           ///< in [0, 1]; 0 is off
  double repeat_penalty = 1;  ///< > 0; 1 is off

  /// Throws BadInput, naming option and range, where a value is outside its range.
  void validate() const;
};

/// What a draw depends on, besides the logits: the same key gives the same random number on any machine.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t sequence = 0;  ///< which text of a batch
  std::uint64_t step = 0;      ///< which token of that text
};

/// Chooses one token. `logits` [vocab_size] are as the model gave them; `history` are the ids that the repeat penalty
/// looks at. Throws BadInput on a bad config, an id of the history outside the vocabulary (where the penalty is on),
/// NaN or +inf among the logits, or no possible token at all.
std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history, const SamplingConfig& config,
                    const DrawKey& key);

struct TokenLogprob {
  std::int32_t id = 0;
  double logprob = 0;  ///< natural logarithm; -inf for a logit of -inf
};

/// The `n` most likely tokens (all where n > vocab_size), the most likely first, lower ids first among equals, by
/// log-softmax of the raw logits. Sums are double and run in the order of ids. Throws BadInput on n < 0 and on logits
/// that sample would refuse.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int n);

/// The log-probability of one token, by the same rule. Throws BadInput also where `id` is outside the vocabulary.
double logprob(std::span<const float> logits, std::int32_t id);

}  // namespace vitrine
