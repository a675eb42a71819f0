#include "constrain/char_nfa.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine::constrain {

CharNfa::CharNfa(const Grammar& grammar, Expr e, std::string_view where) : where_(where) {
  const std::int32_t from = add_state(), to = add_state();
  states_[static_cast<std::size_t>(to)].accepts = true;
  build(grammar, e, from, to);
  remove_skips();
}

std::int32_t CharNfa::add_state() {
  constexpr std::size_t kMaxStates = 200'000;
  if (states_.size() >= kMaxStates)
    throw OutOfCapacity(where_, "expected an automaton of at most {} states", kMaxStates);
  states_.emplace_back();
  return static_cast<std::int32_t>(states_.size() - 1);
}

void CharNfa::build(const Grammar& grammar, Expr e, std::int32_t from, std::int32_t to) {
  const auto at = [&](std::int32_t s) -> State& { return states_[static_cast<std::size_t>(s)]; };
  const Node& n = grammar.node(e);
  const auto along = [&](std::size_t count, auto&& step) {  // `count` parts, one after the other
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t next = i + 1 == count ? to : add_state();
      step(i, next);
      from = next;
    }
    if (count == 0) at(from).skips.push_back(to);
  };
  switch (n.kind) {
    case Node::Kind::never:
      return;
    case Node::Kind::empty:
      at(from).skips.push_back(to);
      return;
    case Node::Kind::set:
      at(from).steps.push_back({grammar.set_of(n), to});
      return;
    case Node::Kind::text: {
      std::vector<std::uint32_t> characters;
      for_each_character(grammar.text_of(n), [&](std::uint32_t c, std::string_view) { characters.push_back(c); });
      along(characters.size(), [&](std::size_t i, std::int32_t next) {
        at(from).steps.push_back({CharSet::of(characters[i]), next});
      });
      return;
    }
    case Node::Kind::sequence:
      along(n.children.size(), [&](std::size_t i, std::int32_t next) { build(grammar, n.children[i], from, next); });
      return;
    case Node::Kind::choice:
      for (const Expr child : n.children) build(grammar, child, from, to);
      return;
    case Node::Kind::repeat:
      return build_repeat(grammar, n, from, to);
    case Node::Kind::graph:
      return build_graph(grammar, grammar.graph_of(n), from, to);
    default:
      throw InternalError("constraint", "an expression over characters contains a rule");
  }
}

void CharNfa::build_repeat(const Grammar& grammar, const Node& n, std::int32_t from, std::int32_t to) {
  const auto skip = [&](std::int32_t a, std::int32_t b) { states_[static_cast<std::size_t>(a)].skips.push_back(b); };
  const std::int64_t copies = n.max == kUnlimited ? n.min : n.max;
  for (std::int64_t i = 0; i < copies; ++i) {
    if (i >= n.min) skip(from, to);
    const std::int32_t next = add_state();
    build(grammar, n.children[0], from, next);
    from = next;
  }
  if (n.max == kUnlimited) {
    const std::int32_t loop = add_state();
    skip(from, loop);
    build(grammar, n.children[0], loop, loop);
    from = loop;
  }
  skip(from, to);
}

void CharNfa::build_graph(const Grammar& grammar, const Graph& graph, std::int32_t from, std::int32_t to) {
  std::vector<std::int32_t> states(static_cast<std::size_t>(graph.n_states));
  for (std::int32_t& s : states) s = add_state();
  states_[static_cast<std::size_t>(from)].skips.push_back(states[0]);
  for (const Graph::Edge& e : graph.edges) {
    build(grammar, e.label, states[static_cast<std::size_t>(e.from)], states[static_cast<std::size_t>(e.to)]);
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (graph.accepts[i]) states_[static_cast<std::size_t>(states[i])].skips.push_back(to);
  }
}

void CharNfa::remove_skips() {
  std::vector<State> plain(states_.size());
  std::vector<std::size_t> seen(states_.size(), states_.size());
  std::size_t n_steps = 0;
  for (std::size_t s = 0; s < states_.size(); ++s) {
    std::vector<std::size_t> pending{s};
    seen[s] = s;
    while (!pending.empty()) {
      const State& reached = states_[pending.back()];
      pending.pop_back();
      plain[s].accepts |= reached.accepts;
      plain[s].steps.insert(plain[s].steps.end(), reached.steps.begin(), reached.steps.end());
      n_steps += reached.steps.size();
      for (const std::int32_t next : reached.skips) {
        if (seen[static_cast<std::size_t>(next)] == s) continue;
        seen[static_cast<std::size_t>(next)] = s;
        pending.push_back(static_cast<std::size_t>(next));
      }
    }
    constexpr std::size_t kMaxSteps = 500'000;
    if (n_steps > kMaxSteps) throw OutOfCapacity(where_, "expected an automaton of at most {} steps", kMaxSteps);
  }
  states_ = std::move(plain);
}

CharNfa CharNfa::of_length(std::int64_t min, std::int64_t max) {
  CharNfa chain;
  const std::int64_t n = max == kUnlimited ? min : max;
  for (std::int64_t i = 0; i <= n; ++i) {
    chain.states_.emplace_back();
    chain.states_.back().accepts = i >= min;
    if (i < n) chain.states_.back().steps.push_back({CharSet::all(), static_cast<std::int32_t>(i + 1)});
  }
  if (max == kUnlimited) chain.states_.back().steps.push_back({CharSet::all(), static_cast<std::int32_t>(n)});
  return chain;
}

bool CharNfa::matches(std::string_view text) const {
  std::vector<std::int32_t> here{0}, next;
  std::vector<std::uint32_t> seen(states_.size(), 0);
  std::uint32_t position = 0;
  for_each_character(text, [&](std::uint32_t c, std::string_view) {
    next.clear();
    ++position;
    for (const std::int32_t s : here) {
      for (const Step& step : states_[static_cast<std::size_t>(s)].steps) {
        if (!step.set.contains(c) || seen[static_cast<std::size_t>(step.to)] == position) continue;
        seen[static_cast<std::size_t>(step.to)] = position;
        next.push_back(step.to);
      }
    }
    std::swap(here, next);
  });
  return std::any_of(here.begin(), here.end(),
                     [&](std::int32_t s) { return states_[static_cast<std::size_t>(s)].accepts; });
}

CharNfa CharNfa::both(const CharNfa& other, std::string_view where) const {
  CharNfa product;
  product.where_ = where;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> known;
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  const auto state_of = [&](std::int32_t a, std::int32_t b) {
    const auto [at, is_new] = known.try_emplace({a, b}, static_cast<std::int32_t>(pairs.size()));
    if (is_new) {
      pairs.emplace_back(a, b);
      product.add_state();
    }
    return at->second;
  };
  state_of(0, 0);
  std::size_t work = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const State& a = states_[static_cast<std::size_t>(pairs[i].first)];
    const State& b = other.states_[static_cast<std::size_t>(pairs[i].second)];
    product.states_[i].accepts = a.accepts && b.accepts;
    for (const Step& x : a.steps) {
      for (const Step& y : b.steps) {
        constexpr std::size_t kMaxWork = 500'000;
        if (++work > kMaxWork) throw OutOfCapacity(where, "two patterns in one are too large");
        CharSet common = x.set & y.set;
        if (common.empty()) continue;
        const std::int32_t to = state_of(x.to, y.to);
        product.states_[i].steps.push_back({std::move(common), to});
      }
    }
  }
  return product;
}

bool CharNfa::is_empty() const {
  std::vector<bool> seen(states_.size(), false);
  std::vector<std::size_t> pending{0};
  seen[0] = true;
  while (!pending.empty()) {
    const State& s = states_[pending.back()];
    pending.pop_back();
    if (s.accepts) return false;
    for (const Step& step : s.steps) {
      if (step.set.empty() || seen[static_cast<std::size_t>(step.to)]) continue;
      seen[static_cast<std::size_t>(step.to)] = true;
      pending.push_back(static_cast<std::size_t>(step.to));
    }
  }
  return true;
}

Expr CharNfa::expression(Grammar& grammar) const {
  Graph graph;
  graph.n_states = static_cast<std::int32_t>(states_.size());
  for (std::size_t s = 0; s < states_.size(); ++s) {
    graph.accepts.push_back(states_[s].accepts);
    for (const Step& step : states_[s].steps) {
      graph.edges.push_back({static_cast<std::int32_t>(s), grammar.set(step.set), step.to});
    }
  }
  return grammar.graph(std::move(graph));
}

TextLengths text_lengths(const Grammar& grammar, Expr e) {
  const Node& n = grammar.node(e);
  TextLengths lengths{0, 0};
  const auto plus = [](std::int64_t a, std::int64_t b) {
    return a == kUnlimited || b == kUnlimited ? kUnlimited : a + b;
  };
  const auto times = [](std::int64_t a, std::int64_t b) {
    if (a == 0 || b == 0) return std::int64_t{0};
    return a == kUnlimited || b == kUnlimited || a > (std::int64_t{1} << 40) / b ? kUnlimited : a * b;
  };
  switch (n.kind) {
    case Node::Kind::set:
      return {1, 1};
    case Node::Kind::text:
      for_each_character(grammar.text_of(n), [&](std::uint32_t, std::string_view) { ++lengths.min; });
      return {lengths.min, lengths.min};
    case Node::Kind::sequence:
      for (const Expr child : n.children) {
        const TextLengths part = text_lengths(grammar, child);
        lengths = {lengths.min + part.min, plus(lengths.max, part.max)};
      }
      return lengths;
    case Node::Kind::choice: {
      lengths = text_lengths(grammar, n.children[0]);
      for (const Expr child : n.children) {
        const TextLengths part = text_lengths(grammar, child);
        lengths.min = std::min(lengths.min, part.min);
        lengths.max =
            lengths.max == kUnlimited || part.max == kUnlimited ? kUnlimited : std::max(lengths.max, part.max);
      }
      return lengths;
    }
    case Node::Kind::repeat: {
      const TextLengths part = text_lengths(grammar, n.children[0]);
      const std::int64_t least = times(n.min, part.min);
      return {least == kUnlimited ? std::int64_t{1} << 40 : least, times(n.max, part.max)};
    }
    case Node::Kind::graph:
      return {0, kUnlimited};  // a bound that holds for any
    default:
      return lengths;
  }
}

}  // namespace vitrine::constrain
