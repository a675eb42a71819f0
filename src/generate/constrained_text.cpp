#include "generate/constrained_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "generate/each_exp.h"
#include "generate/sampler.h"

namespace vitrine {

std::string why_too_few(const AnswerConstraint& answer, std::int64_t max_tokens) {
  if (answer.constraint == nullptr || !answer.must_finish || answer.constraint->shortest() <= max_tokens) return "";
  return fmt::format("the shortest answer has {} bytes, and there are {} tokens for it", answer.constraint->shortest(),
                     max_tokens);
}

bool AllowedTokens::contains(std::int32_t id) const {
  if (std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end()) return stops;
  return id < text.n_ids() && text.test(id);
}

const AllowedTokens& ConstrainedText::allowed(std::int64_t left, std::span<const std::int32_t> stop_ids) {
  if (next_ && (next_->left == left || !of_.must_finish)) return next_->tokens;
  next_.emplace(Next{left, {matcher_.mask(of_.must_finish ? std::optional(left) : std::nullopt)}});
  AllowedTokens& allowed = next_->tokens;
  allowed.stops = matcher_.is_complete();
  allowed.stop_ids = stop_ids;
  for (const std::int32_t id : stop_ids) {
    if (id < allowed.text.n_ids()) allowed.text.clear(id);  // it ends the text, whatever it is
  }
  allowed.n_text = allowed.text.count();
  return allowed;
}

std::optional<std::int32_t> ConstrainedText::forced(const AllowedTokens& allowed) {
  if (allowed.stops) return std::nullopt;
  if (allowed.n_text == 1) {
    const std::int32_t only = allowed.text.first();
    if (!ahead_.empty() && ahead_.front() == only) {
      ahead_.pop_front();
    } else {
      ahead_.clear();
    }
    return only;
  }
  if (of_.fast_forward == nullptr) return std::nullopt;
  if (ahead_.empty()) {
    const std::vector<std::int32_t> ids = of_.fast_forward->of(matcher_.forced());
    ahead_.assign(ids.begin(), ids.end());
  }
  if (ahead_.empty() || !allowed.contains(ahead_.front())) return ahead_.clear(), std::nullopt;
  const std::int32_t id = ahead_.front();
  ahead_.pop_front();
  return id;
}

std::vector<std::int32_t> ConstrainedText::take_forced(std::int64_t left, std::span<const std::int32_t> stop_ids,
                                                       std::int64_t most, std::vector<AllowedTokens>* before) {
  std::vector<std::int32_t> ids;
  while (std::ssize(ids) < most && left - std::ssize(ids) > 1) {
    const std::optional<std::int32_t> id = forced(allowed(left - std::ssize(ids), stop_ids));
    if (!id) break;
    constrain::Matcher after = matcher_;
    after.append(*id);
    if (after.must_end()) {
      ahead_.clear();
      break;  // the last token of an answer is drawn
    }
    matcher_ = std::move(after);
    ids.push_back(*id);
    if (before != nullptr) before->push_back(std::move(next_->tokens));
    next_.reset();
  }
  ahead_.clear();
  return ids;
}

void exclude_others(const AllowedTokens& allowed, std::span<float> scores) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<std::pair<std::size_t, float>> stops;
  for (const std::int32_t id : allowed.stop_ids) {
    const auto i = static_cast<std::size_t>(id);
    if (allowed.stops && i < scores.size()) stops.emplace_back(i, scores[i]);
  }
  const std::span<const std::uint64_t> words = allowed.text.words();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::size_t word = i / 64;
    const bool is_text = word < words.size() && (words[word] >> (i % 64) & 1) != 0;
    if (!is_text) scores[i] = kNever;
  }
  for (const auto& [i, score] : stops) scores[i] = score;
}

double removed_probability(const AllowedTokens& allowed, std::span<const float> logits) {
  const double normalizer = log_sum_exp(logits);
  double removed = 0;
  std::int32_t id = 0;
  each_exp(logits, normalizer, [&](double, double probability) {
    if (!allowed.contains(id++)) removed += probability;
  });
  return removed;
}

}  // namespace vitrine
