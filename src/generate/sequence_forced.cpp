// The tokens of a sequence that have no choice: what ends a reasoning, and what a constraint forces.
#include <algorithm>

#include "generate/sequence.h"

namespace vitrine {

std::vector<std::int32_t> Sequence::end_of_reasoning() const {
  if (!reasoning_ || !reasoning_->is_spent()) return {};
  const ReasoningBudget& budget = *request_.reasoning;
  if (tokenizer_->bytes(budget.end_ids.front()).empty()) return budget.end_ids;  // a token of its own
  std::string last;  // the last bytes, fewer than the mark has
  for (std::size_t i = result_.ids.size(); i > 0 && last.size() < budget.end.size(); --i) {
    if (result_.ids[i - 1] < tokenizer_size()) last.insert(0, tokenizer_->bytes(result_.ids[i - 1]));
  }
  std::size_t n = std::min(last.size(), budget.end.size() - 1);
  while (n > 0 && !last.ends_with(std::string_view(budget.end).substr(0, n))) --n;
  if (n == 0) return budget.end_ids;
  const std::string rest = budget.end.substr(n);
  std::vector<std::int32_t> ids = tokenizer_->encode(rest, SpecialTokens::none);
  std::string text;
  for (const std::int32_t id : ids) text += tokenizer_->bytes(id);
  return text == rest ? ids : budget.end_ids;
}

/// Adds the other tokens of what ends the reasoning: they are read in one pass.
void Sequence::end_reasoning(Branch& branch, std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    if (std::ssize(result_.ids) + std::ssize(forced_) + 1 >= request_.max_tokens) break;
    Forced& own = forced_.emplace_back(Forced{{id, 0, {}}});
    const AllowedTokens* const allowed = allowed_after(branch);
    if (allowed != nullptr && wants_logprobs()) own.allowed = *allowed;
    branch.ids.push_back(id);
    if (branch.answer) branch.answer->append(id);
  }
}

/// Adds the tokens that have no choice after the last one. Where rules have a say, they are drawn.
void Sequence::take_forced(Branch& branch) {
  if (request_.wants_score || request_.banned != nullptr || applies(request_.rules, text_of(branch))) return;
  const std::int64_t left = request_.max_tokens - std::ssize(result_.ids);
  std::vector<AllowedTokens> allowed;
  const std::vector<std::int32_t> ids =
      branch.answer->take_forced(left, request_.stop_ids, left - 1, wants_logprobs() ? &allowed : nullptr);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    branch.ids.push_back(ids[i]);
    Forced& own = forced_.emplace_back(Forced{{ids[i], 0, {}}});
    if (i < allowed.size()) own.allowed = std::move(allowed[i]);
  }
}

/// Returns whether the text has ended in one of them, by a stop string.
bool Sequence::report_forced() {
  for (const Forced& own : std::exchange(forced_, {})) {
    report_token(own.token);
    if (text_.stopped()) return true;
  }
  return false;
}

}  // namespace vitrine
