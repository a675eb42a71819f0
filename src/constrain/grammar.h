// What a constraint permits, as expressions over characters: the form that schemas, regexes, lists of texts and GBNF
// grammars have in common. compile_network() makes an automaton over bytes of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constrain/char_set.h"

namespace vitrine::constrain {

/// An expression of a Grammar: its number.
using Expr = std::int32_t;
/// A rule of a Grammar: its number.
using RuleId = std::int32_t;

constexpr std::int64_t kUnlimited = -1;      ///< A count without an upper bound.
constexpr std::int64_t kMaxCount = 100'000;  ///< The largest bound of a repetition.
constexpr std::size_t kMaxSourceBytes = 1 << 20;
constexpr int kMaxNesting = 512;               ///< Of brackets in a source.
constexpr std::size_t kMaxMemory = 256 << 20;  ///< Bytes of one constraint, compiled and in use.

/// A node of an expression.
struct Node {
  enum class Kind : std::uint8_t {
    never,     ///< no text
    empty,     ///< the empty text
    set,       ///< one character of `sets[index]`
    text,      ///< the characters of `texts[index]`, valid UTF-8
    sequence,  ///< the children, one after the other
    choice,    ///< one of the children
    repeat,    ///< child 0, `min` to `max` times
    rule,      ///< rule `index`
    graph,     ///< `graphs[index]`: paths from state 0 to an accepting state
    token,     ///< one token of `tokens[index]`
    start,     ///< `^`: only in the tree of a regex
    end,       ///< `$`: only in the tree of a regex
  };
  Kind kind;
  std::int32_t index = 0;
  std::int64_t min = 0, max = 0;
  std::vector<Expr> children{};
};

/// States, and edges that are labelled with expressions.
struct Graph {
  struct Edge {
    std::int32_t from;
    Expr label;
    std::int32_t to;
  };
  std::int32_t n_states = 1;
  std::vector<Edge> edges;
  std::vector<bool> accepts;  ///< One a state.
};

/// Tokens that a grammar names: one of `ids`, or any text token except them.
struct TokenSet {
  std::vector<std::int32_t> ids;
  bool is_negated = false;
  bool operator==(const TokenSet&) const = default;
};

class Grammar {
 public:
  Expr never() { return add({.kind = Node::Kind::never}); }
  Expr empty() { return add({.kind = Node::Kind::empty}); }
  Expr set(CharSet set);
  Expr text(std::string text);
  Expr sequence(std::vector<Expr> parts);
  Expr choice(std::vector<Expr> parts);
  /// `max` may be kUnlimited.
  Expr repeat(Expr part, std::int64_t min, std::int64_t max);
  Expr optional(Expr part) { return repeat(part, 0, 1); }
  Expr rule(RuleId rule) { return add({.kind = Node::Kind::rule, .index = rule}); }
  Expr graph(Graph graph);
  Expr token(TokenSet tokens);
  Expr start() { return add({.kind = Node::Kind::start}); }
  Expr end() { return add({.kind = Node::Kind::end}); }
  /// One of `texts`, as a tree that shares their beginnings.
  Expr one_of(std::vector<std::string> texts);
  /// The tree of `texts`: a state for each of their beginnings, edges of one character.
  Graph tree_of(std::vector<std::string> texts);

  /// The texts of `other`, whose parts are copied.
  Expr append(const Grammar& other);

  /// A new rule, whose body is set later.
  RuleId add_rule(std::string name);
  /// A new rule with this body, as an expression.
  Expr named(std::string name, Expr body);
  void define(RuleId rule, Expr body) { rules_[static_cast<std::size_t>(rule)].body = body; }

  const Node& node(Expr e) const { return nodes_[static_cast<std::size_t>(e)]; }
  const CharSet& set_of(const Node& n) const { return sets_[static_cast<std::size_t>(n.index)]; }
  const std::string& text_of(const Node& n) const { return texts_[static_cast<std::size_t>(n.index)]; }
  const Graph& graph_of(const Node& n) const { return graphs_[static_cast<std::size_t>(n.index)]; }
  const TokenSet& tokens_of(const Node& n) const { return tokens_[static_cast<std::size_t>(n.index)]; }
  Expr body(RuleId rule) const { return rules_[static_cast<std::size_t>(rule)].body; }
  const std::string& name(RuleId rule) const { return rules_[static_cast<std::size_t>(rule)].name; }
  std::size_t n_rules() const { return rules_.size(); }
  std::size_t n_nodes() const { return nodes_.size(); }

  RuleId root = 0;

 private:
  struct Rule {
    std::string name;
    Expr body = -1;
  };
  Expr add(Node node);

  std::vector<Node> nodes_;
  std::vector<CharSet> sets_;
  std::vector<std::string> texts_;
  std::vector<Graph> graphs_;
  std::vector<TokenSet> tokens_;
  std::vector<Rule> rules_;
  std::size_t n_children_ = 0;
};

}  // namespace vitrine::constrain
