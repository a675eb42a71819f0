// The result of generation: ids, text, log-probabilities, and why it ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generate/sampler.h"
#include "generate/speculation_counts.h"

namespace vitrine {

enum class FinishReason : std::uint8_t { stop, length };
std::string_view name_of(FinishReason reason);

/// A generated token with its log-probability in the model's own distribution, before any sampling step.
struct TokenReport {
  std::int32_t id = 0;
  double logprob = 0;             ///< Natural logarithm.
  std::vector<TokenLogprob> top;  ///< The n_logprobs most likely tokens.
  std::int64_t rank = 0;          ///< Of a token of the prompt: 1 for the most likely one; else 0.
  /// Under a constraint: the probability, in the same distribution, of all tokens that it excluded here.
  std::optional<double> removed{};
};

/// A text that a search has found.
struct TextHypothesis {
  std::vector<std::int32_t> ids;
  std::string text;
  double score = 0;
  FinishReason finish_reason = FinishReason::length;
};

struct GenerateResult {
  std::vector<std::int32_t> ids;  ///< The continuation, without prompt and stop id.
  std::string text;               ///< The same as bytes, up to a stop string; empty without a tokenizer.
  std::vector<TokenReport> logprobs;
  /// Of the prompt's tokens after first_prompt_logprob, if they were requested.
  std::vector<TokenReport> prompt_logprobs;
  std::optional<TokenReport> stop_token;     ///< The stop id that ended the text, with its log-probabilities.
  std::optional<std::string> stop_string{};  ///< The stop string that ended the text.
  FinishReason finish_reason = FinishReason::length;
  std::int64_t cached_tokens = 0;                  ///< The first tokens of the prompt that a kept prefix provided.
  std::optional<SpeculationCounts> speculation{};  ///< If the sequence read proposed ids, or could have.
  double score = 0;                                ///< Σ log p / length^A (generate/beam.h), if it was requested.
  std::vector<TextHypothesis> hypotheses;          ///< The best texts, best first, if a score was requested.
};

}  // namespace vitrine
