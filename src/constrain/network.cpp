#include "constrain/network.h"

#include <algorithm>
#include <bitset>
#include <utility>

#include "base/error.h"
#include "constrain/utf8_edges.h"
#include "tokenizer/utf8.h"

namespace vitrine::constrain {

Length product(std::int64_t count, Length length) {
  if (count == 0 || length == 0) return 0;
  return length >= kNoWay / count ? kNoWay : count * length;
}

std::size_t Network::memory_bytes() const {
  return first_edge.size() * (sizeof(std::int32_t) + sizeof(Length)) + edges.size() * sizeof(NetworkEdge) +
         rules.size() * sizeof(NetworkRule);
}

namespace {

/// Copies of a small expression are cheaper than calls; a larger repetition is a rule of its own.
constexpr std::int64_t kMaxCopiedStates = 256;
/// A character of many: its repetition is a rule, whose masks all texts share.
constexpr std::uint64_t kManyCharacters = 16;
constexpr int kMaxInlineDepth = 3;
constexpr std::int64_t kMaxInlineSize = 8;

class Compiler {
 public:
  Compiler(const Grammar& grammar, const CharSet& alphabet) : grammar_(grammar), alphabet_(alphabet) {}

  Network compile() {
    for (RuleId r = 0; r < static_cast<RuleId>(grammar_.n_rules()); ++r) add_network_rule();
    for (RuleId r = 0; r < static_cast<RuleId>(grammar_.n_rules()); ++r) lower_body(r, grammar_.body(r));
    network_.root = grammar_.root;
    find_byte_classes();
    find_shortest(network_);
    return std::move(network_);
  }

 private:
  std::int32_t add_state() {
    constexpr std::size_t kMaxStates = 2'000'000;
    if (network_.first_edge.size() >= kMaxStates) {
      throw OutOfCapacity("constraint", "expected an automaton of at most {} states", kMaxStates);
    }
    network_.first_edge.push_back(-1);
    return static_cast<std::int32_t>(network_.first_edge.size() - 1);
  }

  void add_edge(std::int32_t from, NetworkEdge edge) {
    constexpr std::size_t kMaxEdges = 5'000'000;
    if (network_.edges.size() >= kMaxEdges) {
      throw OutOfCapacity("constraint", "expected an automaton of at most {} edges", kMaxEdges);
    }
    std::int32_t& first = network_.first_edge[static_cast<std::size_t>(from)];
    edge.next = first;
    first = static_cast<std::int32_t>(network_.edges.size());
    network_.edges.push_back(edge);
  }
  void skip(std::int32_t from, std::int32_t to) {
    add_edge(from, {.to = to, .next = -1, .kind = NetworkEdge::Kind::nothing});
  }
  void call(std::int32_t from, std::int32_t rule, std::int32_t to) {
    add_edge(from, {.to = to, .next = -1, .kind = NetworkEdge::Kind::call, .index = rule});
  }

  std::int32_t add_network_rule() {
    network_.rules.push_back({.entry = add_state(), .exit = add_state()});
    return static_cast<std::int32_t>(network_.rules.size() - 1);
  }

  void lower_body(std::int32_t rule, Expr body) {
    const auto [entry, exit] = std::pair(network_.rules[static_cast<std::size_t>(rule)].entry,
                                         network_.rules[static_cast<std::size_t>(rule)].exit);
    lower(body, entry, exit);
  }

  /// Adds the ways of `e` from one state to another: edges out of `from` and into `to`.
  void lower(Expr e, std::int32_t from, std::int32_t to) {
    const Node& n = grammar_.node(e);
    switch (n.kind) {
      case Node::Kind::never:
        return;
      case Node::Kind::start:
      case Node::Kind::end:
      case Node::Kind::empty:
        return skip(from, to);
      case Node::Kind::set:
        return lower_set(grammar_.set_of(n) & alphabet_, from, to);
      case Node::Kind::text:
        return lower_text(grammar_.text_of(n), from, to);
      case Node::Kind::sequence:
        return lower_sequence(n, from, to);
      case Node::Kind::choice:
        for (const Expr child : n.children) lower(child, from, to);
        return;
      case Node::Kind::repeat:
        return lower_repeat(n, from, to);
      case Node::Kind::rule:
        if (is_character(grammar_.body(n.index), kMaxInlineDepth) ||
            inline_size(grammar_.body(n.index), kMaxInlineDepth) <= kMaxInlineSize) {
          return lower(grammar_.body(n.index), from, to);
        }
        return call(from, n.index, to);
      case Node::Kind::graph:
        return lower_graph(grammar_.graph_of(n), from, to);
      case Node::Kind::token:
        network_.tokens.push_back(grammar_.tokens_of(n));
        return add_edge(from, {.to = to,
                               .next = -1,
                               .kind = NetworkEdge::Kind::token,
                               .index = static_cast<std::int32_t>(network_.tokens.size() - 1)});
    }
  }

  void lower_set(const CharSet& set, std::int32_t from, std::int32_t to) {
    add_utf8_edges(
        set, from, to, [&] { return add_state(); },
        [&](std::int32_t a, std::uint8_t first, std::uint8_t last, std::int32_t b) {
          add_edge(a, {.to = b, .next = -1, .kind = NetworkEdge::Kind::bytes, .first = first, .last = last});
        });
  }

  void lower_text(const std::string& text, std::int32_t from, std::int32_t to) {
    bool is_available = true;
    for_each_character(text, [&](std::uint32_t c, std::string_view) { is_available &= alphabet_.contains(c); });
    if (!is_available) return;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::int32_t next = i + 1 == text.size() ? to : add_state();
      const auto byte = static_cast<std::uint8_t>(text[i]);
      add_edge(from, {.to = next, .next = -1, .kind = NetworkEdge::Kind::bytes, .first = byte, .last = byte});
      from = next;
    }
  }

  void lower_sequence(const Node& n, std::int32_t from, std::int32_t to) {
    for (std::size_t i = 0; i < n.children.size(); ++i) {
      const std::int32_t next = i + 1 == n.children.size() ? to : add_state();
      lower(n.children[i], from, next);
      from = next;
    }
  }

  void lower_graph(const Graph& graph, std::int32_t from, std::int32_t to) {
    std::vector<std::int32_t> states(static_cast<std::size_t>(graph.n_states));
    for (std::int32_t& state : states) state = add_state();
    skip(from, states[0]);
    for (const Graph::Edge& e : graph.edges) {
      lower(e.label, states[static_cast<std::size_t>(e.from)], states[static_cast<std::size_t>(e.to)]);
    }
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (graph.accepts[i]) skip(states[i], to);
    }
  }

  void lower_repeat(const Node& n, std::int32_t from, std::int32_t to) {
    const Expr part = n.children[0];
    const std::int64_t copies = n.max == kUnlimited ? n.min + 1 : n.max;
    const bool is_counted = is_wide_character(part, kMaxInlineDepth) ? copies > 1 || n.max == kUnlimited
                                                                     : copies > kMaxCopiedStates / n_states(part);
    if (is_counted && (n.min > 0 || n.max != kUnlimited || is_wide_character(part, kMaxInlineDepth))) {
      return call(from, counted_rule(part, n.min, n.max), to);
    }
    for (std::int64_t i = 0; i < copies; ++i) {
      if (i >= n.min) skip(from, to);
      if (i == n.min && n.max == kUnlimited) break;
      const std::int32_t next = add_state();
      lower(part, from, next);
      from = next;
    }
    if (n.max != kUnlimited) return skip(from, to);
    const std::int32_t loop = add_state();
    skip(from, loop);
    lower(part, loop, loop);
    skip(loop, to);
  }

  /// The rule that repeats `part`, which has a rule of its own.
  std::int32_t counted_rule(Expr part, std::int64_t min, std::int64_t max) {
    const auto [known, is_new] = counted_.try_emplace({part, min, max}, -1);
    if (!is_new) return known->second;
    const auto [body, is_new_body] = bodies_.try_emplace(part, -1);
    if (is_new_body) {
      const Node& n = grammar_.node(part);
      const bool is_call = n.kind == Node::Kind::rule;
      body->second = is_call ? n.index : add_network_rule();
      if (!is_call) lower_body(body->second, part);
    }
    network_.rules.push_back({.body = body->second, .min = min, .max = max});
    known->second = static_cast<std::int32_t>(network_.rules.size() - 1);
    return known->second;
  }

  /// Whether `e` is one of a few short texts: a character, and how it is escaped.
  bool is_character(Expr e, int depth) const {
    const Node& n = grammar_.node(e);
    if (n.kind == Node::Kind::set) return true;
    if (n.kind == Node::Kind::text) return grammar_.text_of(n).size() <= 8;
    if (depth == 0 || n.children.size() > 40) return false;
    if (n.kind == Node::Kind::repeat) return n.min == n.max && n.max <= 4 && is_character(n.children[0], depth - 1);
    if (n.kind != Node::Kind::choice && n.kind != Node::Kind::sequence) return false;
    return std::all_of(n.children.begin(), n.children.end(),
                       [&](Expr child) { return is_character(child, depth - 1); });
  }
  bool is_wide_character(Expr e, int depth) const {
    const Node& n = grammar_.node(e);
    if (n.kind == Node::Kind::set) return grammar_.set_of(n).size() >= kManyCharacters;
    if (n.kind == Node::Kind::rule) return depth > 0 && is_wide_character(grammar_.body(n.index), depth - 1);
    if (n.kind != Node::Kind::choice || !is_character(e, depth)) return false;
    return std::any_of(n.children.begin(), n.children.end(),
                       [&](Expr child) { return is_wide_character(child, depth - 1); });
  }

  /// How many states an expression takes that is cheaper without calls, as white space is; beyond kMaxInlineSize
  /// otherwise.
  std::int64_t inline_size(Expr e, int depth) const {
    const Node& n = grammar_.node(e);
    std::int64_t size = 1;
    for (const Expr child : n.children) {
      size += inline_size(child, depth);
      if (size > kMaxInlineSize) return size;
    }
    switch (n.kind) {
      case Node::Kind::text:
        return static_cast<std::int64_t>(grammar_.text_of(n).size());
      case Node::Kind::repeat:
        return n.max == kUnlimited && n.min <= 1 ? size : size * std::max(n.min, n.max);
      case Node::Kind::rule:
        return depth == 0 ? kMaxInlineSize + 1 : inline_size(grammar_.body(n.index), depth - 1);
      case Node::Kind::graph:
      case Node::Kind::token:
        return kMaxInlineSize + 1;
      default:
        return size;
    }
  }

  /// About how many states an expression takes, at most kMaxCopiedStates.
  std::int64_t n_states(Expr e) {
    const auto [known, is_new] = n_states_.try_emplace(e, 1);
    if (!is_new) return known->second;
    const Node& n = grammar_.node(e);
    std::int64_t total = 1;
    if (n.kind == Node::Kind::text) total = static_cast<std::int64_t>(grammar_.text_of(n).size());
    if (n.kind == Node::Kind::set) total = 1 + static_cast<std::int64_t>(grammar_.set_of(n).ranges().size()) / 2;
    if (n.kind == Node::Kind::graph) total = grammar_.graph_of(n).n_states;
    for (const Expr child : n.children) total = std::min(total + n_states(child), kMaxCopiedStates);
    if (n.kind == Node::Kind::repeat) total *= std::clamp<std::int64_t>(std::max(n.min, n.max), 1, kMaxCopiedStates);
    total = std::clamp<std::int64_t>(total, 1, kMaxCopiedStates);
    return n_states_[e] = total;
  }

  void find_byte_classes() {
    std::bitset<257> starts;
    for (const NetworkEdge& e : network_.edges) {
      if (e.kind != NetworkEdge::Kind::bytes) continue;
      starts.set(e.first);
      starts.set(std::size_t{e.last} + 1);
    }
    int c = 0;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (byte > 0 && starts.test(byte)) ++c;
      network_.byte_class[byte] = static_cast<std::uint8_t>(c);
    }
    network_.n_classes = c + 1;
  }

  const Grammar& grammar_;
  const CharSet& alphabet_;
  Network network_;
  std::map<std::tuple<Expr, std::int64_t, std::int64_t>, std::int32_t> counted_;
  std::map<Expr, std::int32_t> bodies_;
  std::map<Expr, std::int64_t> n_states_;
};

}  // namespace

Network compile_network(const Grammar& grammar, const CharSet& alphabet) {
  return Compiler(grammar, alphabet).compile();
}

}  // namespace vitrine::constrain
