#include "constrain/grammar.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine::constrain {
namespace {

struct Counts {
  std::int64_t min, max;
};

/// The counts of a part that is repeated `inner` times, `outer` times over, if they have no gap: as in (a{2,3}){4,5},
/// which is a{8,15}. Counted twice, each place in the text would have a count of its own.
std::optional<Counts> repeated_twice(const Counts& inner, const Counts& outer) {
  constexpr std::int64_t kMost = 1'000'000'000'000;
  const bool has_gap =
      outer.min != outer.max && inner.max != kUnlimited && (outer.min + 1) * inner.min > outer.min * inner.max + 1;
  if (has_gap || (inner.max == kUnlimited && outer.min == 0 && inner.min > 1)) return std::nullopt;
  const bool is_unlimited = inner.max == kUnlimited || outer.max == kUnlimited;
  if (outer.min > 0 && inner.min > kMost / outer.min) return std::nullopt;
  if (!is_unlimited && inner.max > kMost / outer.max) return std::nullopt;
  return Counts{inner.min * outer.min, is_unlimited ? kUnlimited : inner.max * outer.max};
}

}  // namespace

Expr Grammar::add(Node node) {
  constexpr std::size_t kMaxNodes = 1'000'000;
  n_children_ += node.children.size();
  if (nodes_.size() + n_children_ / 4 >= kMaxNodes) {
    throw OutOfCapacity("constraint", "expected at most {} parts of an expression", kMaxNodes);
  }
  nodes_.push_back(std::move(node));
  return static_cast<Expr>(nodes_.size() - 1);
}

Expr Grammar::set(CharSet set) {
  if (set.empty()) return never();
  if (sets_.empty() || sets_.back() != set) sets_.push_back(std::move(set));
  return add({.kind = Node::Kind::set, .index = static_cast<std::int32_t>(sets_.size() - 1)});
}

Expr Grammar::text(std::string text) {
  if (text.empty()) return empty();
  texts_.push_back(std::move(text));
  return add({.kind = Node::Kind::text, .index = static_cast<std::int32_t>(texts_.size() - 1)});
}

Expr Grammar::sequence(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts[0];
  if (parts.empty()) return empty();
  return add({.kind = Node::Kind::sequence, .children = std::move(parts)});
}

Expr Grammar::choice(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts[0];
  if (parts.empty()) return never();
  return add({.kind = Node::Kind::choice, .children = std::move(parts)});
}

Expr Grammar::repeat(Expr part, std::int64_t min, std::int64_t max) {
  if (max == 0) return empty();
  if (min == 1 && max == 1) return part;
  if (node(part).kind == Node::Kind::repeat) {
    const Node inner = node(part);
    if (const auto both = repeated_twice({inner.min, inner.max}, {min, max})) {
      return repeat(inner.children[0], both->min, both->max);
    }
  }
  return add({.kind = Node::Kind::repeat, .min = min, .max = max, .children = {part}});
}

Expr Grammar::graph(Graph graph) {
  graphs_.push_back(std::move(graph));
  return add({.kind = Node::Kind::graph, .index = static_cast<std::int32_t>(graphs_.size() - 1)});
}

Expr Grammar::token(TokenSet tokens) {
  tokens_.push_back(std::move(tokens));
  return add({.kind = Node::Kind::token, .index = static_cast<std::int32_t>(tokens_.size() - 1)});
}

RuleId Grammar::add_rule(std::string name) {
  rules_.push_back({std::move(name), -1});
  return static_cast<RuleId>(rules_.size() - 1);
}

Expr Grammar::named(std::string name, Expr body) {
  const RuleId id = add_rule(std::move(name));
  define(id, body);
  return rule(id);
}

Expr Grammar::append(const Grammar& other) {
  const auto shift = [](const auto& list) { return static_cast<std::int32_t>(list.size()); };
  const Expr first_node = shift(nodes_);
  const RuleId first_rule = shift(rules_);
  const std::int32_t first_set = shift(sets_), first_text = shift(texts_), first_graph = shift(graphs_),
                     first_tokens = shift(tokens_);
  for (Node node : other.nodes_) {
    for (Expr& child : node.children) child += first_node;
    switch (node.kind) {
      case Node::Kind::set:
        node.index += first_set;
        break;
      case Node::Kind::text:
        node.index += first_text;
        break;
      case Node::Kind::rule:
        node.index += first_rule;
        break;
      case Node::Kind::graph:
        node.index += first_graph;
        break;
      case Node::Kind::token:
        node.index += first_tokens;
        break;
      default:
        break;
    }
    add(std::move(node));
  }
  sets_.insert(sets_.end(), other.sets_.begin(), other.sets_.end());
  texts_.insert(texts_.end(), other.texts_.begin(), other.texts_.end());
  tokens_.insert(tokens_.end(), other.tokens_.begin(), other.tokens_.end());
  for (Graph graph : other.graphs_) {
    for (Graph::Edge& edge : graph.edges) edge.label += first_node;
    graphs_.push_back(std::move(graph));
  }
  for (const Rule& own : other.rules_) rules_.push_back({own.name, own.body < 0 ? own.body : own.body + first_node});
  return rule(first_rule + other.root);
}

Expr Grammar::one_of(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  if (texts.size() == 1) return text(texts[0]);
  return graph(tree_of(std::move(texts)));
}

Graph Grammar::tree_of(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  // A state for each beginning; a text adds states from where it leaves the one before it in the order.
  Graph tree;
  tree.accepts = {false};
  std::unordered_map<std::uint32_t, Expr> labels;
  std::vector<std::int32_t> path{0};         // the states along the text before
  std::vector<std::string_view> characters;  // that lead to them
  for (const std::string& text : texts) {
    std::size_t depth = 0, at = 0;
    for_each_character(text, [&](std::uint32_t c, std::string_view character) {
      if (depth == at && depth < characters.size() && characters[depth] == character) {
        ++depth;
      } else {
        if (depth == at) {
          path.resize(depth + 1);
          characters.resize(depth);
        }
        const auto [label, is_new] = labels.try_emplace(c, -1);
        if (is_new) label->second = set(CharSet::of(c));
        tree.edges.push_back({path.back(), label->second, tree.n_states});
        path.push_back(tree.n_states++);
        tree.accepts.push_back(false);
        characters.push_back(character);
      }
      ++at;
    });
    if (depth == at) {
      path.resize(depth + 1);
      characters.resize(depth);
    }
    tree.accepts[static_cast<std::size_t>(path.back())] = true;
  }
  return tree;
}

}  // namespace vitrine::constrain
