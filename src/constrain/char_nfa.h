// Automata over characters: which texts an expression without rules permits, and what two of them have in common.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "constrain/grammar.h"

namespace vitrine::constrain {

class CharNfa {
 public:
  /// The texts of `e`, which must contain neither rules nor tokens. Throws OutOfCapacity beyond 200,000 states; `where`
  /// names the expression.
  CharNfa(const Grammar& grammar, Expr e, std::string_view where);
  /// Texts of `min` to `max` characters; kUnlimited: no upper bound.
  static CharNfa of_length(std::int64_t min, std::int64_t max);

  bool matches(std::string_view text) const;
  /// The texts of both. Throws OutOfCapacity beyond 200,000 states.
  CharNfa both(const CharNfa& other, std::string_view where) const;
  bool is_empty() const;
  Expr expression(Grammar& grammar) const;

 private:
  struct Step {
    CharSet set;
    std::int32_t to;
  };
  struct State {
    std::vector<Step> steps;
    std::vector<std::int32_t> skips;
    bool accepts = false;
  };
  CharNfa() = default;
  std::int32_t add_state();
  void build(const Grammar& grammar, Expr e, std::int32_t from, std::int32_t to);
  void build_repeat(const Grammar& grammar, const Node& n, std::int32_t from, std::int32_t to);
  void build_graph(const Grammar& grammar, const Graph& graph, std::int32_t from, std::int32_t to);
  /// Replaces the skips by steps.
  void remove_skips();

  std::vector<State> states_;
  std::string_view where_;
};

/// How many characters the texts of `e` have: the fewest, and the most or kUnlimited. `e` must contain no rules.
struct TextLengths {
  std::int64_t min, max;
};
TextLengths text_lengths(const Grammar& grammar, Expr e);

}  // namespace vitrine::constrain
