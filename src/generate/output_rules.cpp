#include "generate/output_rules.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace vitrine {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

bool ends_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> end) {
  return end.size() <= ids.size() &&
         std::equal(end.begin(), end.end(), ids.end() - static_cast<std::ptrdiff_t>(end.size()));
}

/// Excludes the tokens that would repeat n tokens in a row.
void exclude_repeats(std::int64_t n, std::span<const std::int32_t> ids, std::span<float> scores) {
  const auto length = static_cast<std::size_t>(n);
  if (ids.size() + 1 < length) return;
  const auto tail = ids.last(length - 1);
  for (std::size_t end = length - 1; end < ids.size(); ++end) {
    if (ends_with(ids.first(end), tail)) scores[static_cast<std::size_t>(ids[end])] = kExcluded;
  }
}

bool must_not_stop(const OutputRules& rules, const TextSoFar& text) { return text.n_new < rules.min_tokens; }
bool is_first(const OutputRules& rules, const TextSoFar& text) { return rules.forced_first && text.ids.size() == 1; }
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
  if (forced_first) check("forced_bos_token_id", *forced_first);
  if (forced_last) check("forced_eos_token_id", *forced_last);
  if (min_tokens < 0) throw BadInput("min_tokens", "expected at least 0, got {}", min_tokens);
  if (no_repeat_ngram < 0) throw BadInput("no_repeat_ngram", "expected at least 0, got {}", no_repeat_ngram);
}

bool applies(const OutputRules& rules, const TextSoFar& text) {
  return rules.no_repeat_ngram > 0 || !rules.bad_words.empty() || !rules.suppressed.empty() ||
         must_not_stop(rules, text) || is_first(rules, text) || is_last(rules, text);
}

void apply(const OutputRules& rules, const TextSoFar& text, std::span<float> scores) {
  if (rules.no_repeat_ngram > 0) exclude_repeats(rules.no_repeat_ngram, text.ids, scores);
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
  for (const std::int32_t id : rules.suppressed) scores[static_cast<std::size_t>(id)] = kExcluded;
}

}  // namespace vitrine
