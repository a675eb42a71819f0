// A JSON Schema as a grammar: a rule for each set of schemas that a value must satisfy together.
#include "constrain/schema/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "constrain/char_nfa.h"
#include "constrain/regex.h"
#include "constrain/sources.h"

namespace vitrine::constrain {

SchemaCompiler::SchemaCompiler(const OrderedJson& root, bool has_white_space)
    : reader_(root), parts_(grammar_, has_white_space) {}

Grammar SchemaCompiler::compile() {
  const Schemas root{&reader_.root()};
  rules_[root] = grammar_.root = grammar_.add_rule("schema");
  pending_.push_back(root);
  while (!pending_.empty()) {
    const Schemas schemas = pending_.back();
    pending_.pop_back();
    const std::vector<Shape> shapes = reader_.read(schemas);
    std::vector<Expr> ways;
    for (const Shape& shape : shapes) ways.push_back(value(shape, *schemas.back()));
    grammar_.define(rules_.at(schemas), grammar_.choice(std::move(ways)));
    if (shapes.empty() && schemas == root) throw no_value();
  }
  return std::move(grammar_);
}

BadInput SchemaCompiler::no_value() const {
  if (reader_.conflict().empty()) return {"schema", "no value satisfies it"};
  return {reader_.conflict(), "no value satisfies the schema"};
}

Expr SchemaCompiler::value_of(const Schemas& schemas) {
  const bool is_any = std::all_of(schemas.begin(), schemas.end(), [](const OrderedJson* s) {
    return (s->is(OrderedJson::Kind::boolean) && s->truth) || (s->is(OrderedJson::Kind::object) && s->members.empty());
  });
  if (is_any) return parts_.any();
  const auto [known, is_new] = rules_.try_emplace(schemas, -1);
  if (is_new) {
    known->second = grammar_.add_rule("value");
    pending_.push_back(schemas);
  }
  return grammar_.rule(known->second);
}

Expr SchemaCompiler::value(const Shape& shape, const OrderedJson& place) {
  if (shape.is_any()) return parts_.any();
  if (shape.values) {
    Shape others = shape;
    others.values.reset();
    std::vector<const OrderedJson*> valid;
    for (const OrderedJson* v : *shape.values) {
      if (reader_.is_valid(*v, others)) valid.push_back(v);
    }
    return parts_.values(valid);
  }
  std::vector<Expr> ways;
  if ((shape.types & kNull) != 0) ways.push_back(grammar_.text("null"));
  if ((shape.types & kBoolean) != 0) ways.push_back(grammar_.one_of({"true", "false"}));
  if ((shape.types & kNumber) != 0) ways.push_back(number(shape, place));
  if ((shape.types & kString) != 0) ways.push_back(string(shape));
  if ((shape.types & kArray) != 0) ways.push_back(array(shape));
  if ((shape.types & kObject) != 0) ways.push_back(object(shape, place));
  return grammar_.choice(std::move(ways));
}

Expr SchemaCompiler::number(const Shape& shape, const OrderedJson& place) {
  if (!shape.number.has_limits()) return shape.number.is_integer ? parts_.integer() : parts_.number();
  return limited_number(grammar_, shape.number, reader_.where(place));
}

Expr SchemaCompiler::text(const Shape& shape) {
  std::vector<Expr> regexes;
  for (const Pattern& p : shape.patterns) {
    regexes.push_back(parse_regex(grammar_, p.regex, RegexUse::search, p.where));
  }
  const TextLengths lengths = text_lengths(grammar_, regexes[0]);
  const bool has_lengths =
      lengths.min < shape.min_length ||
      (shape.max_length != kUnlimited && (lengths.max == kUnlimited || lengths.max > shape.max_length));
  if (regexes.size() == 1 && !has_lengths) return regexes[0];
  const std::string& where = shape.patterns[0].where;
  CharNfa all(grammar_, regexes[0], where);
  for (std::size_t i = 1; i < regexes.size(); ++i) all = all.both(CharNfa(grammar_, regexes[i], where), where);
  if (has_lengths) all = all.both(CharNfa::of_length(shape.min_length, shape.max_length), where);
  return all.expression(grammar_);
}

Expr SchemaCompiler::string(const Shape& shape) {
  if (shape.patterns.empty()) return parts_.string(shape.min_length, shape.max_length);
  std::string key = fmt::format("{} {}", shape.min_length, shape.max_length);
  for (const Pattern& p : shape.patterns) key += '\0' + p.regex;
  const auto [known, is_new] = strings_.try_emplace(key, -1);
  if (is_new) {
    known->second = grammar_.add_rule("string");
    grammar_.define(known->second, parts_.spelled(text(shape)));
  }
  return grammar_.rule(known->second);
}

Expr SchemaCompiler::array(const Shape& shape) {
  std::size_t n_first = 0;
  bool has_others = false, is_closed = false;
  for (const OrderedJson* schema : shape.arrays) {
    const OrderedJson* first = schema->find("prefixItems");
    const OrderedJson* others = schema->find("items");
    if (first == nullptr && others != nullptr && others->is(OrderedJson::Kind::array)) {
      first = others;
      others = schema->find("additionalItems");
    }
    if (first != nullptr) n_first = std::max(n_first, first->items.size());
    has_others |= others != nullptr;
    is_closed |= first != nullptr || schema->find("unevaluatedItems") != nullptr;
  }
  const std::int64_t min = shape.min_items;
  std::int64_t max = shape.max_items;
  if (is_closed && !has_others) {  // no items after the first ones
    const auto n = static_cast<std::int64_t>(n_first);
    max = max == kUnlimited ? n : std::min(max, n);
  }
  return items(shape, n_first, min, max);
}

Expr SchemaCompiler::items(const Shape& shape, std::size_t n_first, std::int64_t min, std::int64_t max) {
  const auto item = [&](std::size_t index) {
    const ShapeReader::Property place = reader_.item(shape.arrays, index);
    return place.is_allowed ? value_of(place.schemas) : grammar_.never();
  };
  const auto allows = [&](std::int64_t n) { return n >= min && (max == kUnlimited || n <= max); };
  if (n_first == 0) {
    if (max == 0) return parts_.brackets("[", grammar_.never(), "]", min == 0);
    return parts_.brackets("[", parts_.list(item(0), min, max), "]", min == 0);
  }
  Graph graph;  // state i: after i items
  graph.accepts = {false};
  for (std::size_t i = 0; i < n_first && (max == kUnlimited || static_cast<std::int64_t>(i) < max); ++i) {
    const Expr next = i == 0 ? item(i) : grammar_.sequence({parts_.comma(), item(i)});
    graph.edges.push_back({static_cast<std::int32_t>(i), next, static_cast<std::int32_t>(i + 1)});
    graph.accepts.push_back(allows(graph.n_states++));
  }
  const std::int64_t n = graph.n_states - 1;
  if (n == static_cast<std::int64_t>(n_first) && (max == kUnlimited || n < max)) {
    const Expr rest = grammar_.sequence({parts_.comma(), item(n_first)});
    const std::int64_t most = max == kUnlimited ? kUnlimited : max - n;
    graph.edges.push_back({static_cast<std::int32_t>(n),
                           grammar_.repeat(rest, std::max<std::int64_t>(min - n, 1), most), graph.n_states});
    graph.accepts.push_back(true);
    ++graph.n_states;
  }
  return parts_.brackets("[", grammar_.graph(std::move(graph)), "]", min == 0);
}

Grammar parse_schema(std::string_view json, bool has_white_space) {
  const OrderedJson root = parse_ordered_json(json, "schema");
  return SchemaCompiler(root, has_white_space).compile();
}

}  // namespace vitrine::constrain
