// The order and number of an object's members.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "constrain/grammar.h"

namespace vitrine::constrain {

/// How many members an object has; `max` may be kUnlimited.
struct MemberCounts {
  std::int64_t min, max;
  std::int64_t n_required;
};

/// States say which members may still come, whether one has just been written, and, where it matters, how many there
/// are.
class MemberGraph {
 public:
  MemberGraph(Grammar& grammar, Expr comma, MemberCounts counts) : grammar_(grammar), comma_(comma), counts_(counts) {}

  void add(Expr member, bool is_required) { members_.push_back({member, is_required}); }
  /// At least one member. `other`: what may follow them, any number of times. Throws OutOfCapacity for too many states.
  Expr finish(std::optional<Expr> other, std::string_view where);

 private:
  struct Member {
    Expr expression;
    bool is_required;
  };
  /// A state: before member `index` must be written, or after the members before it.
  std::int32_t state(bool is_after, std::size_t index, std::int64_t count);
  void connect(bool is_after, std::size_t index, std::int64_t count, std::optional<Expr> other);
  void connect_others(std::int32_t from, std::int64_t count, Expr other);
  bool may_end(std::size_t index, std::int64_t count) const;
  std::int64_t plus_one(std::int64_t count) const;

  Grammar& grammar_;
  Expr comma_;
  MemberCounts counts_;
  std::vector<Member> members_;
  bool is_counted_ = false;
  std::size_t first_optional_tail_ = 0;  // from here on, all members are optional
  std::map<std::tuple<bool, std::size_t, std::int64_t>, std::int32_t> known_;
  std::vector<std::tuple<bool, std::size_t, std::int64_t>> states_;
  std::int32_t end_ = -1;
  Graph graph_;
};

}  // namespace vitrine::constrain
