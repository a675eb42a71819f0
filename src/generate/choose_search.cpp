#include "generate/choose_search.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

EarlyStop early_stop_of(const std::string& name) {
  if (name == "no") return EarlyStop::no;
  if (name == "yes") return EarlyStop::yes;
  if (name == "never") return EarlyStop::never;
  throw BadInput("early_stop", "expected no, yes or never, got {}", name);
}

}  // namespace

void choose_search(const SearchOverrides& caller, const SearchDefaults& checkpoint, bool samples,
                   GenerateRequest& request) {
  const auto prompt_size = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t stored_beams = samples ? 1 : std::clamp<std::int64_t>(checkpoint.n_beams.value_or(1), 1, 1 << 20);
  request.beam.n_beams = caller.n_beams.value_or(static_cast<int>(stored_beams));
  request.beam.n_best = caller.n_best;
  request.beam.length_penalty = caller.length_penalty.value_or(checkpoint.length_penalty.value_or(1));
  request.beam.early_stop = early_stop_of(caller.early_stop.value_or(checkpoint.early_stop.value_or("no")));

  // The checkpoint's lengths include the prompt, unless they are those of new tokens.
  const auto without_prompt = [&](std::int64_t length) { return std::max<std::int64_t>(0, length - prompt_size); };
  if (caller.max_tokens) {
    request.max_tokens = *caller.max_tokens;
  } else if (checkpoint.max_new_tokens) {
    request.max_tokens = *checkpoint.max_new_tokens;
  } else if (checkpoint.max_length && !request.source.empty()) {
    request.max_tokens = without_prompt(*checkpoint.max_length);
  }
  OutputRules& rules = request.rules;
  const std::int64_t stored_least =
      std::max(checkpoint.min_new_tokens.value_or(0), without_prompt(checkpoint.min_length.value_or(0)));
  rules.min_tokens = caller.min_tokens.value_or(stored_least);
  rules.no_repeat_ngram = caller.no_repeat_ngram.value_or(checkpoint.no_repeat_ngram.value_or(0));
  rules.bad_words = checkpoint.bad_words;
  rules.suppressed = checkpoint.suppressed;
  rules.forced_first = caller.forced_first ? caller.forced_first : checkpoint.forced_first;
  rules.forced_last = checkpoint.forced_last;
}

}  // namespace vitrine
