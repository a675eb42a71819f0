#include "constrain/free_text.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "tokenizer/utf8.h"

namespace vitrine::constrain {
namespace {

/// A beginning of marks: the longest one that ends where a text ends.
struct State {
  std::map<std::uint32_t, std::size_t> next;  ///< By the character that follows; first of the tree, then of all marks.
  std::size_t shorter = 0;                    ///< The longest beginning that is an end of this one.
  bool is_mark = false;
};

std::vector<State> tree_of(std::span<const std::string> marks) {
  std::vector<State> states(1);
  for (const std::string& mark : marks) {
    std::size_t at = 0;
    for_each_character(mark, [&](std::uint32_t c, std::string_view) {
      const auto [next, is_new] = states[at].next.try_emplace(c, states.size());
      at = next->second;
      if (is_new) states.emplace_back();
    });
    states[at].is_mark = true;
  }
  return states;
}

/// Adds where characters of marks lead that do not continue a beginning. States come in the order of their lengths.
void complete(std::vector<State>& states) {
  std::vector<std::size_t> order;
  for (const auto& [c, next] : states[0].next) order.push_back(next);
  for (std::size_t i = 0; i < order.size(); ++i) {
    State& state = states[order[i]];
    const State& shorter = states[state.shorter];
    state.is_mark = state.is_mark || shorter.is_mark;
    for (const auto& [c, next] : state.next) {
      const auto of_shorter = shorter.next.find(c);
      if (of_shorter != shorter.next.end()) states[next].shorter = of_shorter->second;
      order.push_back(next);
    }
    state.next.insert(shorter.next.begin(), shorter.next.end());
  }
}

}  // namespace

Expr text_without(Grammar& grammar, std::span<const std::string> marks) {
  std::vector<State> states = tree_of(marks);
  complete(states);
  Graph graph;
  graph.n_states = static_cast<std::int32_t>(states.size());
  for (std::size_t s = 0; s < states.size(); ++s) {
    graph.accepts.push_back(!states[s].is_mark);
    if (states[s].is_mark) continue;
    std::map<std::size_t, CharSet> to;
    CharSet others = CharSet::all();
    for (const auto& [c, next] : states[s].next) {
      const CharSet one = CharSet::of(c);
      others = others - one;
      if (!states[next].is_mark) to[next] = to[next] | one;
    }
    to[0] = to[0] | others;
    for (const auto& [next, set] : to) {
      graph.edges.push_back({static_cast<std::int32_t>(s), grammar.set(set), static_cast<std::int32_t>(next)});
    }
  }
  return grammar.graph(std::move(graph));
}

Expr text_not_beginning(Grammar& grammar, std::span<const std::string> marks) {
  const std::vector<State> states = tree_of(marks);
  const CharSet space = CharSet::of_any(" \t\r\n");
  const auto outside = static_cast<std::int32_t>(states.size());
  Graph graph;
  graph.n_states = outside + 1;
  for (std::size_t s = 0; s < states.size(); ++s) {
    const auto from = static_cast<std::int32_t>(s);
    graph.accepts.push_back(!states[s].is_mark);
    if (states[s].is_mark) continue;
    CharSet others = s == 0 ? ~space : CharSet::all();
    for (const auto& [c, next] : states[s].next) {
      others = others - CharSet::of(c);
      graph.edges.push_back({from, grammar.set(CharSet::of(c)), static_cast<std::int32_t>(next)});
    }
    graph.edges.push_back({from, grammar.set(others), outside});
  }
  graph.edges.push_back({0, grammar.set(space), 0});
  graph.edges.push_back({outside, grammar.set(CharSet::all()), outside});
  graph.accepts.push_back(true);
  return grammar.graph(std::move(graph));
}

}  // namespace vitrine::constrain
