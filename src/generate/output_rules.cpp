#include "generate/output_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/math.h"

namespace vitrine {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

bool ends_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> end) {
  return end.size() <= ids.size() &&
         std::equal(end.begin(), end.end(), ids.end() - static_cast<std::ptrdiff_t>(end.size()));
}

/// Excludes the tokens with which the text would end with n tokens in a row of `source`.
void exclude_repeats(std::int64_t n, std::span<const std::int32_t> source, std::span<const std::int32_t> ids,
                     std::span<float> scores) {
  const auto length = static_cast<std::size_t>(n);
  if (ids.size() + 1 < length) return;
  const auto tail = ids.last(length - 1);
  for (std::size_t end = length - 1; end < source.size(); ++end) {
    if (ends_with(source.first(end), tail)) scores[static_cast<std::size_t>(source[end])] = kExcluded;
  }
}

/// The growth of the scores of stop ids; excluded ones stay so.
void grow_stops(const std::pair<std::int64_t, double>& growth, const TextSoFar& text, std::span<float> scores) {
  if (text.n_new <= growth.first) return;
  const auto factor = static_cast<float>(math::pow(growth.second, static_cast<double>(text.n_new - growth.first)) - 1);
  std::vector<std::int32_t> ids(text.stop_ids.begin(), text.stop_ids.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const std::int32_t id : ids) {
    if (static_cast<std::size_t>(id) >= scores.size()) continue;
    float& score = scores[static_cast<std::size_t>(id)];
    if (std::isfinite(score)) score += std::abs(score) * factor;
  }
}

bool must_not_stop(const OutputRules& rules, const TextSoFar& text) { return text.n_new < rules.min_tokens; }
bool is_first(const OutputRules& rules, const TextSoFar& text) { return rules.forced_first && text.ids.size() == 1; }
/// `suppressed_first` counts from the end of the prompt, or after the token that is forced there.
bool begins(const OutputRules& rules, const TextSoFar& text) {
  const bool forces = rules.forced_first && static_cast<std::int64_t>(text.ids.size()) - text.n_new <= 1;
  return !rules.suppressed_first.empty() && text.n_new == (forces ? 1 : 0);
}
bool is_last(const OutputRules& rules, const TextSoFar& text) {
  return rules.forced_last && text.n_new + 1 == text.max_tokens;
}

void force(std::int32_t id, std::span<float> scores) {
  std::fill(scores.begin(), scores.end(), kExcluded);
  scores[static_cast<std::size_t>(id)] = 0;
}

}  // namespace

void OutputRules::validate(std::int64_t vocab_size) const {
  const auto check = [&](const char* what, std::int32_t id) {
    if (id < 0 || id >= vocab_size) throw BadInput(what, "expected ids from 0 to {}, got {}", vocab_size - 1, id);
  };
  for (const auto& word : bad_words) {
    for (const std::int32_t id : word) check("bad_words_ids", id);
  }
  for (const std::int32_t id : suppressed) check("suppress_tokens", id);
  for (const std::int32_t id : suppressed_first) check("begin_suppress_tokens", id);
  for (const auto& [sequence, bias] : sequence_bias) {
    if (sequence.empty() || !std::isfinite(bias)) {
      throw BadInput("sequence_bias", "expected sequences of at least one id and finite biases");
    }
    for (const std::int32_t id : sequence) check("sequence_bias", id);
  }
  if (!(source_penalty > 0) || !std::isfinite(source_penalty)) {
    throw BadInput("encoder_repetition_penalty", "expected a number above 0, got {}", source_penalty);
  }
  if (forced_first) check("forced_bos_token_id", *forced_first);
  if (forced_last) check("forced_eos_token_id", *forced_last);
  if (min_tokens < 0) throw BadInput("min_tokens", "expected at least 0, got {}", min_tokens);
  if (no_repeat_ngram < 0) throw BadInput("no_repeat_ngram", "expected at least 0, got {}", no_repeat_ngram);
}

bool applies(const OutputRules& rules, const TextSoFar& text) {
  return rules.surround_penalty() || rules.no_repeat_ngram > 0 || rules.source_no_repeat_ngram > 0 ||
         !rules.bad_words.empty() || begins(rules, text) || !rules.suppressed.empty() || must_not_stop(rules, text) ||
         is_first(rules, text) || is_last(rules, text);
}

void apply_before_penalty(const OutputRules& rules, const TextSoFar& text, std::span<float> scores) {
  std::map<std::int32_t, float> bias;
  for (const auto& [sequence, own] : rules.sequence_bias) {
    const std::span<const std::int32_t> before(sequence.data(), sequence.size() - 1);
    if (ends_with(text.ids, before)) bias[sequence.back()] += own;
  }
  for (const auto& [id, sum] : bias) scores[static_cast<std::size_t>(id)] += sum;
  if (rules.source_penalty == 1) return;
  const auto factor = static_cast<float>(1 / rules.source_penalty);
  std::vector<bool> is_changed(scores.size());
  for (const std::int32_t id : text.source) {
    const auto i = static_cast<std::size_t>(id);
    if (i >= scores.size() || is_changed[i]) continue;
    is_changed[i] = true;
    scores[i] = scores[i] < 0 ? scores[i] * factor : scores[i] / factor;
  }
}

void apply(const OutputRules& rules, const TextSoFar& text, std::span<float> scores) {
  if (rules.no_repeat_ngram > 0) exclude_repeats(rules.no_repeat_ngram, text.ids, text.ids, scores);
  if (rules.source_no_repeat_ngram > 0) exclude_repeats(rules.source_no_repeat_ngram, text.source, text.ids, scores);
  for (const auto& word : rules.bad_words) {
    const bool is_stop =
        word.size() == 1 && std::find(text.stop_ids.begin(), text.stop_ids.end(), word[0]) != text.stop_ids.end();
    if (word.empty() || is_stop) continue;
    const std::span<const std::int32_t> before(word.data(), word.size() - 1);
    if (ends_with(text.ids, before)) scores[static_cast<std::size_t>(word.back())] = kExcluded;
  }
  if (must_not_stop(rules, text)) {
    for (const std::int32_t id : text.stop_ids) {
      if (static_cast<std::size_t>(id) < scores.size()) scores[static_cast<std::size_t>(id)] = kExcluded;
    }
  }
  if (is_first(rules, text)) force(*rules.forced_first, scores);
  if (is_last(rules, text)) force(*rules.forced_last, scores);
  if (rules.stop_growth) grow_stops(*rules.stop_growth, text, scores);
  for (const std::int32_t id : rules.suppressed) scores[static_cast<std::size_t>(id)] = kExcluded;
  if (!begins(rules, text)) return;
  for (const std::int32_t id : rules.suppressed_first) scores[static_cast<std::size_t>(id)] = kExcluded;
}

}  // namespace vitrine
