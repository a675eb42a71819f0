// Rules about the next token, which change its scores before it is chosen: those of transformers' generate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vitrine {

/// Scores of tokens that a rule excludes become −∞. They are applied in the order of the members; a forced token has
/// the score 0, and all others −∞. Source: transformers, generation/logits_process.py.
struct OutputRules {
  std::int64_t no_repeat_ngram = 0;                  ///< No n tokens in a row occur twice, the prompt included; 0: off.
  std::vector<std::vector<std::int32_t>> bad_words;  ///< Sequences of ids that do not occur.
  std::int64_t min_tokens = 0;                       ///< Before so many new tokens there is no stop id.
  std::optional<std::int32_t> forced_first;          ///< The second token of the text, after a prompt of one token.
  std::optional<std::int32_t> forced_last;           ///< The last of max_tokens new tokens.
  std::vector<std::int32_t> suppressed;

  /// Throws BadInput for ids outside the vocabulary and negative numbers.
  void validate(std::int64_t vocab_size) const;
  bool operator==(const OutputRules&) const = default;
};

/// A text that is being generated.
struct TextSoFar {
  std::span<const std::int32_t> ids;  ///< Prompt and new tokens.
  std::int64_t n_new = 0;
  std::int64_t max_tokens = 0;             ///< Of the new ones.
  std::span<const std::int32_t> stop_ids;  ///< Any of them ends the text.
};

/// Whether a rule changes the scores of the next token.
bool applies(const OutputRules& rules, const TextSoFar& text);
/// Changes the scores (logits or log-probabilities) `[vocab_size]` of the next token.
void apply(const OutputRules& rules, const TextSoFar& text, std::span<float> scores);

}  // namespace vitrine
