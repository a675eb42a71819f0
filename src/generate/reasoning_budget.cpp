#include "generate/reasoning_budget.h"

#include <algorithm>

namespace vitrine {

void ReasoningCounter::append(std::string_view text) {
  if (is_over_) return;
  text_ += text;
  if (is_inside_) {
    ++n_tokens_;
    is_over_ = text_.find(budget_->end) != text_.npos;
    is_inside_ = !is_over_;
    if (text_.size() > budget_->end.size()) text_.erase(0, text_.size() - budget_->end.size());
    return;
  }
  const std::string_view begun =
      std::string_view(text_).substr(std::min(text_.find_first_not_of(" \t\r\n"), text_.size()));
  is_inside_ = begun.starts_with(budget_->begin);
  if (is_inside_) {
    text_.clear();
  } else {
    is_over_ = !std::string_view(budget_->begin).starts_with(begun);
  }
}

}  // namespace vitrine
