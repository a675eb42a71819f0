#include "constrain/schema/json_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "constrain/sources.h"

namespace vitrine::constrain {
namespace {

/// Characters that a string contains as they are.
CharSet plain_characters() { return ~(CharSet::range(0, 0x1F) | CharSet::of_any("\"\\")); }

}  // namespace

JsonParts::JsonParts(Grammar& grammar, bool has_white_space) : grammar_(grammar) {
  white_space_ = grammar.empty();
  comma_ = grammar.text(",");
  if (has_white_space) {
    white_space_ = rule("white space", [&] {
      const Expr lines = grammar.repeat(grammar.set(CharSet::of('\n')), 1, 2);
      const Expr indent = grammar.repeat(grammar.set(CharSet::of_any(" \t")), 0, 20);
      return grammar.choice({grammar.empty(), grammar.text(" "), grammar.sequence({lines, indent})});
    });
    comma_ = rule("comma", [&] { return grammar.sequence({white_space_, grammar.text(","), white_space_}); });
  }
  character_ = spelled_set(CharSet::all());
}

template <class Make>
Expr JsonParts::rule(const std::string& name, Make make) {
  const auto [known, is_new] = rules_.try_emplace(name, -1);
  if (is_new) {
    const RuleId id = known->second = grammar_.add_rule(name);
    grammar_.define(id, make());
    return grammar_.rule(id);
  }
  return grammar_.rule(known->second);
}

Expr JsonParts::spelled_set(const CharSet& set) {
  std::vector<Expr> ways;
  if (const CharSet plain = set & plain_characters(); !plain.empty()) ways.push_back(grammar_.set(plain));
  const CharSet escaped = set - plain_characters();
  for (const CharRange& r : escaped.ranges()) {
    for (std::uint32_t c = r.first; c <= r.last; ++c) ways.push_back(grammar_.text(json_escape(c)));
  }
  return grammar_.choice(std::move(ways));
}

Expr JsonParts::spelled_part(Expr text) {
  const auto [known, is_new] = spelled_.try_emplace(text, -1);
  if (!is_new) return known->second;
  const Node n = grammar_.node(text);  // a copy: nodes are added below
  Expr spelled = text;
  if (n.kind == Node::Kind::set) {
    spelled = grammar_.set_of(n) == CharSet::all() ? character_ : spelled_set(CharSet(grammar_.set_of(n)));
  } else if (n.kind == Node::Kind::text) {
    const std::string quoted = json_string(std::string(grammar_.text_of(n)));
    spelled = grammar_.text(quoted.substr(1, quoted.size() - 2));
  } else if (n.kind == Node::Kind::graph) {
    Graph graph = grammar_.graph_of(n);
    for (Graph::Edge& edge : graph.edges) edge.label = spelled_part(edge.label);
    spelled = grammar_.graph(std::move(graph));
  } else if (!n.children.empty()) {
    std::vector<Expr> children = n.children;
    for (Expr& child : children) child = spelled_part(child);
    if (n.kind == Node::Kind::sequence) spelled = grammar_.sequence(std::move(children));
    if (n.kind == Node::Kind::choice) spelled = grammar_.choice(std::move(children));
    if (n.kind == Node::Kind::repeat) spelled = grammar_.repeat(children[0], n.min, n.max);
  }
  return spelled_[text] = spelled;
}

Expr JsonParts::spelled(Expr text) {
  return grammar_.sequence({grammar_.text("\""), spelled_part(text), grammar_.text("\"")});
}

Expr JsonParts::string(std::int64_t min, std::int64_t max) {
  return rule(fmt::format("string {} {}", min, max), [&] {
    return grammar_.sequence({grammar_.text("\""), grammar_.repeat(character_, min, max), grammar_.text("\"")});
  });
}

Expr JsonParts::text_except(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const Expr others = grammar_.repeat(grammar_.set(CharSet::all()), 0, kUnlimited);
  if (names.empty()) return others;
  // The tree of the names, with its ends exchanged, and a way out of it wherever a text leaves it.
  Graph rest = grammar_.tree_of(std::move(names));
  std::vector<CharSet> taken(static_cast<std::size_t>(rest.n_states));
  for (const Graph::Edge& e : rest.edges) {
    CharSet& set = taken[static_cast<std::size_t>(e.from)];
    set = set | grammar_.set_of(grammar_.node(e.label));
  }
  const std::int32_t outside = rest.n_states++;
  rest.accepts.flip();
  rest.accepts.push_back(true);
  for (std::size_t s = 0; s < taken.size(); ++s) {
    const Expr leaves = grammar_.sequence({grammar_.set(~taken[s]), others});
    rest.edges.push_back({static_cast<std::int32_t>(s), leaves, outside});
  }
  return grammar_.graph(std::move(rest));
}

Expr JsonParts::string_except(const std::vector<std::string>& names) {
  return names.empty() ? string() : spelled(text_except(names));
}

Expr JsonParts::integer() {
  return rule("integer", [&] {
    const Expr digits = grammar_.repeat(grammar_.set(CharSet::range('0', '9')), 0, 15);
    const Expr first = grammar_.set(CharSet::range('1', '9'));
    return grammar_.choice(
        {grammar_.text("0"), grammar_.sequence({grammar_.optional(grammar_.text("-")), first, digits})});
  });
}

Expr JsonParts::number() {
  return rule("number", [&] {
    const Expr digit = grammar_.set(CharSet::range('0', '9'));
    const Expr whole =
        grammar_.choice({grammar_.text("0"),
                         grammar_.sequence({grammar_.set(CharSet::range('1', '9')), grammar_.repeat(digit, 0, 15)})});
    const Expr fraction = grammar_.sequence({grammar_.text("."), grammar_.repeat(digit, 1, 16)});
    const Expr exponent =
        grammar_.sequence({grammar_.set(CharSet::of_any("eE")), grammar_.optional(grammar_.set(CharSet::of_any("+-"))),
                           grammar_.repeat(digit, 1, 2)});
    return grammar_.sequence(
        {grammar_.optional(grammar_.text("-")), whole, grammar_.optional(fraction), grammar_.optional(exponent)});
  });
}

Expr JsonParts::list(Expr item, std::int64_t min, std::int64_t max, Expr separator) {
  const std::int64_t more = max == kUnlimited ? kUnlimited : max - 1;
  const Expr rest = grammar_.repeat(grammar_.sequence({separator, item}), std::max<std::int64_t>(min - 1, 0), more);
  return grammar_.sequence({item, rest});
}

Expr JsonParts::brackets(std::string_view open, Expr items, std::string_view close, bool may_be_empty) {
  Expr inside = grammar_.sequence({items, white_space_});
  if (may_be_empty) inside = grammar_.optional(inside);
  return grammar_.sequence({grammar_.text(std::string(open)), white_space_, inside, grammar_.text(std::string(close))});
}

Expr JsonParts::member(Expr name, Expr value) {
  return grammar_.sequence({name, grammar_.text(":"), white_space_, value});
}

Expr JsonParts::member(std::string_view name, Expr value) {
  return grammar_.sequence({grammar_.text(json_string(name) + ":"), white_space_, value});
}

Expr JsonParts::any_object(int depth) {
  return rule(fmt::format("object {}", depth),
              [&] { return brackets("{", list(member(string(), any(depth - 1)), 0, kUnlimited, comma_), "}", true); });
}

Expr JsonParts::any_array(int depth) {
  return rule(fmt::format("array {}", depth),
              [&] { return brackets("[", list(any(depth - 1), 0, kUnlimited, comma_), "]", true); });
}

Expr JsonParts::any(int depth) {
  return rule(fmt::format("value {}", depth), [&] {
    std::vector<Expr> ways{grammar_.one_of({"null", "true", "false"}), number(), string()};
    if (depth > 0) {
      ways.push_back(any_object(depth));
      ways.push_back(any_array(depth));
    }
    return grammar_.choice(std::move(ways));
  });
}

Expr JsonParts::value(const OrderedJson& v) {
  switch (v.kind) {
    case OrderedJson::Kind::null:
      return grammar_.text("null");
    case OrderedJson::Kind::boolean:
      return grammar_.text(v.truth ? "true" : "false");
    case OrderedJson::Kind::number:
      return grammar_.text(v.text);
    case OrderedJson::Kind::string:
      return grammar_.text(json_string(v.text));
    default:
      break;
  }
  const bool is_object = v.is(OrderedJson::Kind::object);
  std::vector<Expr> parts;
  const auto add = [&](Expr part) {
    if (!parts.empty()) parts.push_back(comma_);
    parts.push_back(part);
  };
  for (const OrderedJson& item : v.items) add(value(item));
  for (const auto& [name, item] : v.members) add(member(name, value(item)));
  const bool is_empty = parts.empty();
  const Expr items = is_empty ? grammar_.never() : grammar_.sequence(std::move(parts));
  return is_object ? brackets("{", items, "}", is_empty) : brackets("[", items, "]", is_empty);
}

Expr JsonParts::values(const std::vector<const OrderedJson*>& values) {
  std::vector<std::string> scalars;
  std::vector<Expr> ways;
  for (const OrderedJson* v : values) {
    const Expr e = value(*v);
    if (const Node& n = grammar_.node(e); n.kind == Node::Kind::text) {
      scalars.push_back(grammar_.text_of(n));
    } else {
      ways.push_back(e);
    }
  }
  if (!scalars.empty()) ways.push_back(grammar_.one_of(std::move(scalars)));
  return grammar_.choice(std::move(ways));
}

Grammar json_object(bool has_white_space) {
  Grammar grammar;
  grammar.root = grammar.add_rule("json_object");
  JsonParts parts(grammar, has_white_space);
  grammar.define(grammar.root, parts.any_object());
  return grammar;
}

}  // namespace vitrine::constrain
