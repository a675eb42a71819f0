// How many tokens the reasoning of an answer may have.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine {

struct ReasoningBudget {
  std::int64_t max_tokens = 0;        ///< After so many tokens of the reasoning its end is written.
  std::string begin{}, end{};         ///< The texts around it, which special tokens may spell.
  std::vector<std::int32_t> end_ids;  ///< The end as tokens, at least one.
  bool has_begun = false;             ///< The prompt has begun it; else an answer may begin with it.
};

/// Follows an answer until its reasoning is over.
class ReasoningCounter {
 public:
  explicit ReasoningCounter(const ReasoningBudget& budget) : budget_(&budget), is_inside_(budget.has_begun) {}

  /// The text of the next token.
  void append(std::string_view text);
  /// The reasoning goes on, and has as many tokens as it may have.
  bool is_spent() const { return is_inside_ && n_tokens_ >= budget_->max_tokens; }
  bool is_inside() const { return is_inside_; }
  bool is_over() const { return is_over_; }  ///< It has ended, or there is none.

 private:
  const ReasoningBudget* budget_;
  std::string text_{};  // before the reasoning, or of it
  std::int64_t n_tokens_ = 0;
  bool is_inside_;
  bool is_over_ = false;
};

}  // namespace vitrine
