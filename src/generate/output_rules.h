// Rules about the next token, which change its scores before it is chosen: those of transformers' generate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vitrine {

/// Scores of tokens that a rule excludes become −∞. They are applied in the order of the members, the repeat penalty
/// between the second and the third; a forced token has the score 0, and all others −∞. Source: transformers,
/// generation/logits_process.py.
struct OutputRules {
  /// Added to the score of the last id of a sequence where the text ends with the others.
  std::vector<std::pair<std::vector<std::int32_t>, float>> sequence_bias;
  double source_penalty = 1;                         ///< Above 1: what is in the source becomes more likely.
  std::int64_t no_repeat_ngram = 0;                  ///< No n tokens in a row occur twice, the prompt included; 0: off.
  std::int64_t source_no_repeat_ngram = 0;           ///< No n tokens in a row of the source occur; 0: off.
  std::vector<std::vector<std::int32_t>> bad_words;  ///< Sequences of ids that do not occur.
  std::int64_t min_tokens = 0;                       ///< Before so many new tokens there is no stop id.
  std::optional<std::int32_t> forced_first;          ///< The second token of the text, after a prompt of one token.
  std::optional<std::int32_t> forced_last;           ///< The last of max_tokens new tokens.
  /// After so many new tokens, the scores of stop ids grow with each further one: by |score| · (factor^n − 1).
  std::optional<std::pair<std::int64_t, double>> stop_growth;
  std::vector<std::int32_t> suppressed;
  std::vector<std::int32_t> suppressed_first;  ///< As the first new token, or the one after `forced_first`.

  /// Throws BadInput for ids outside the vocabulary and negative numbers.
  void validate(std::int64_t vocab_size) const;
  bool operator==(const OutputRules&) const = default;
  /// Whether a rule is applied before the repeat penalty, or depends on it.
  bool surround_penalty() const { return !sequence_bias.empty() || source_penalty != 1 || stop_growth; }
};

/// A text that is being generated.
struct TextSoFar {
  std::span<const std::int32_t> ids;  ///< Prompt and new tokens.
  std::int64_t n_new = 0;
  std::int64_t max_tokens = 0;             ///< Of the new ones.
  std::span<const std::int32_t> stop_ids;  ///< Any of them ends the text.
  std::span<const std::int32_t> source{};  ///< What the encoder reads; without an encoder, the prompt.
};

/// Whether a rule changes the scores of the next token.
bool applies(const OutputRules& rules, const TextSoFar& text);
/// Changes the scores (logits or log-probabilities) `[vocab_size]` of the next token: the rules before the repeat
/// penalty, and those after it.
void apply_before_penalty(const OutputRules& rules, const TextSoFar& text, std::span<float> scores);
void apply(const OutputRules& rules, const TextSoFar& text, std::span<float> scores);

}  // namespace vitrine
