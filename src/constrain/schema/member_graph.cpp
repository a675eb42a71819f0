#include "constrain/schema/member_graph.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine::constrain {

Expr MemberGraph::finish(std::optional<Expr> other, std::string_view where) {
  const auto n = static_cast<std::int64_t>(members_.size());
  is_counted_ = counts_.min > std::max<std::int64_t>(counts_.n_required, 1) ||
                (counts_.max != kUnlimited && (other.has_value() || counts_.max < n));
  if (counts_.max == 0) return grammar_.never();
  for (std::size_t i = members_.size(); i > 0 && !members_[i - 1].is_required; --i) first_optional_tail_ = i - 1;
  if (members_.empty() || members_.back().is_required) first_optional_tail_ = members_.size();
  graph_.n_states = 0;
  state(false, 0, 0);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto [is_after, index, count] = states_[i];
    connect(is_after, index, count, other);
    constexpr std::size_t kMaxStates = 300'000;
    if (states_.size() > kMaxStates) throw OutOfCapacity(where, "too many ways to choose properties");
  }
  return grammar_.graph(std::move(graph_));
}

std::int32_t MemberGraph::state(bool is_after, std::size_t index, std::int64_t count) {
  const auto [known, is_new] = known_.try_emplace({is_after, index, count}, graph_.n_states);
  if (is_new) {
    states_.emplace_back(is_after, index, count);
    ++graph_.n_states;
    graph_.accepts.push_back(is_after && may_end(index, count));
  }
  return known->second;
}

std::int64_t MemberGraph::plus_one(std::int64_t count) const {
  if (!is_counted_) return 0;
  return counts_.max == kUnlimited ? std::min(count + 1, counts_.min) : count + 1;  // at the minimum, more are alike
}

bool MemberGraph::may_end(std::size_t index, std::int64_t count) const {
  return index >= first_optional_tail_ && (!is_counted_ || count >= counts_.min);
}

void MemberGraph::connect(bool is_after, std::size_t index, std::int64_t count, std::optional<Expr> other) {
  const std::int32_t from = state(is_after, index, count);
  const bool is_full = is_counted_ && counts_.max != kUnlimited && count >= counts_.max;
  if (is_after) {
    if (!is_full && (index < members_.size() || other)) {
      graph_.edges.push_back({from, comma_, state(false, index, count)});
    }
    return;
  }
  if (is_full || index > members_.size()) return;
  if (index == members_.size()) {
    if (other) connect_others(from, count, *other);
    return;
  }
  const Member& member = members_[index];
  graph_.edges.push_back({from, member.expression, state(true, index + 1, plus_one(count))});
  if (!member.is_required) graph_.edges.push_back({from, grammar_.empty(), state(false, index + 1, count)});
}

void MemberGraph::connect_others(std::int32_t from, std::int64_t count, Expr other) {
  if (!is_counted_) {
    graph_.edges.push_back({from, other, state(true, members_.size(), count)});
    return;
  }
  // Names may repeat, so that other members count as one towards the minimum.
  if (count + 1 < counts_.min) return;
  const std::int64_t most = counts_.max == kUnlimited ? kUnlimited : counts_.max - count - 1;
  const Expr more = grammar_.repeat(grammar_.sequence({comma_, other}), 0, most);
  if (end_ < 0) {
    end_ = state(true, members_.size() + 1, counts_.min);
    graph_.accepts[static_cast<std::size_t>(end_)] = true;
  }
  graph_.edges.push_back({from, grammar_.sequence({other, more}), end_});
}

}  // namespace vitrine::constrain
