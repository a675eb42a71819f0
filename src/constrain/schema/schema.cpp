// A JSON Schema as a grammar: a rule for each set of schemas that a value must satisfy together.
#include "constrain/schema/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "constrain/char_nfa.h"
#include "constrain/free_text.h"
#include "constrain/regex.h"
#include "constrain/sources.h"

namespace vitrine::constrain {

SchemaCompiler::SchemaCompiler(const OrderedJson& root, bool has_white_space)
    : reader_(root), parts_(grammar_, has_white_space) {}

Grammar SchemaCompiler::compile() { return compile_rules(); }

Grammar SchemaCompiler::compile_arguments(const std::function<Notation(Grammar&)>& notation) {
  is_arguments_ = true;
  if (notation) notation_ = notation(grammar_);
  return compile_rules();
}

Grammar SchemaCompiler::compile_rules() {
  const std::pair root{Schemas{&reader_.root()}, Form{}};
  rules_[root] = grammar_.root = grammar_.add_rule("schema");
  pending_.push_back(root);
  while (!pending_.empty()) {
    const auto [schemas, form] = pending_.back();
    pending_.pop_back();
    std::vector<Shape> shapes = reader_.read(schemas);
    const bool is_root = std::pair(schemas, form) == root;
    std::vector<Expr> ways;
    for (Shape& shape : shapes) {
      const OrderedJson& place = schemas.empty() ? reader_.root() : *schemas.back();
      if (!is_root || !is_arguments_) {
        ways.push_back(value(shape, place, form));
      } else if ((shape.types & kObject) != 0 && !shape.values) {
        ways.push_back(object(shape, place, notation_ ? &notation_->members : nullptr));
      }
    }
    if (is_root && ways.empty()) throw no_value();
    grammar_.define(rules_.at({schemas, form}), grammar_.choice(std::move(ways)));
  }
  return std::move(grammar_);
}

BadInput SchemaCompiler::no_value() const {
  if (reader_.conflict().empty()) return {"schema", "no value satisfies it"};
  return {reader_.conflict(), "no value satisfies the schema"};
}

Expr SchemaCompiler::value_of(const Schemas& schemas, const Form& form) {
  const bool is_any = std::all_of(schemas.begin(), schemas.end(), [](const OrderedJson* s) {
    return (s->is(OrderedJson::Kind::boolean) && s->truth) || (s->is(OrderedJson::Kind::object) && s->members.empty());
  });
  if (is_any && form.in == nullptr) return parts_.any();
  const auto [known, is_new] = rules_.try_emplace({is_any ? Schemas() : schemas, form}, -1);
  if (is_new) {
    known->second = grammar_.add_rule("value");
    pending_.push_back(known->first);
  }
  return grammar_.rule(known->second);
}

Expr SchemaCompiler::value(const Shape& shape, const OrderedJson& place, const Form& form) {
  if (form.in == nullptr && shape.is_any()) return parts_.any();
  if (shape.values) return values(shape, place, form);
  if (form.is_text) return (shape.types & kString) != 0 ? plain_text(shape, form.in->text_ends) : grammar_.never();
  const bool has_strings = form.in == nullptr || !form.in->of_text;
  const bool is_nested = form.in != nullptr && notation_->list;
  std::vector<Expr> ways;
  if ((shape.types & kNull) != 0) ways.push_back(grammar_.text("null"));
  if ((shape.types & kBoolean) != 0) ways.push_back(grammar_.one_of({"true", "false"}));
  if ((shape.types & kNumber) != 0) ways.push_back(number(shape, place));
  if ((shape.types & kString) != 0 && has_strings) ways.push_back(string(shape));
  if ((shape.types & kArray) != 0) ways.push_back(array(shape, is_nested ? &*notation_->list : nullptr));
  if ((shape.types & kObject) != 0) ways.push_back(object(shape, place, is_nested ? &*notation_->object : nullptr));
  return grammar_.choice(std::move(ways));
}

/// The values of `enum` and `const` that satisfy the rest of the shape.
Expr SchemaCompiler::values(const Shape& shape, const OrderedJson& place, const Form& form) {
  Shape others = shape;
  others.values.reset();
  std::vector<const OrderedJson*> valid;
  std::vector<std::string> texts;
  for (const OrderedJson* v : *shape.values) {
    if (!reader_.is_valid(*v, others)) continue;
    const bool is_string = v->is(OrderedJson::Kind::string);
    const auto has = [&](const std::string& end) { return v->text.find(end) != std::string::npos; };
    if (is_string && form.is_text && std::ranges::none_of(form.in->text_ends, has)) texts.push_back(v->text);
    const bool is_structured = v->is(OrderedJson::Kind::array) || v->is(OrderedJson::Kind::object);
    if (is_structured && form.in != nullptr && !form.is_text && notation_->list) {
      throw Unsupported(reader_.where(place),
                        "lists and objects as values of enum and const are not supported where "
                        "the chat template does not write JSON");
    }
    const bool is_other = form.in == nullptr || (!form.is_text && !(is_string && form.in->of_text));
    if (is_other) valid.push_back(v);
  }
  if (!form.is_text) return parts_.values(valid);
  return texts.empty() ? grammar_.never() : grammar_.one_of(std::move(texts));
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

Expr SchemaCompiler::plain_text(const Shape& shape, const std::vector<std::string>& ends) {
  const Expr free = text_without(grammar_, ends);
  const bool has_lengths = shape.min_length > 0 || shape.max_length != kUnlimited;
  if (shape.patterns.empty() && !has_lengths) return free;
  const std::string where = shape.patterns.empty() ? "schema" : shape.patterns[0].where;
  const CharNfa own = shape.patterns.empty() ? CharNfa::of_length(shape.min_length, shape.max_length)
                                             : CharNfa(grammar_, text(shape), where);
  return own.both(CharNfa(grammar_, free, where), where).expression(grammar_);
}

Expr SchemaCompiler::around(const ContainerNotation& in, Expr elements, bool may_be_empty) {
  Expr inside = grammar_.sequence({in.open, elements});
  if (may_be_empty) inside = grammar_.choice({in.empty, inside});
  return grammar_.sequence({inside, in.close});
}

Expr SchemaCompiler::element(const ContainerNotation& in, std::optional<Expr> key, const Schemas& schemas) {
  const Expr other = in.of_other(key, value_of(schemas, {&in, false}));
  if (!in.of_text) return other;
  return grammar_.choice({in.of_text(key, value_of(schemas, {&in, true})), other});
}

Expr SchemaCompiler::array(const Shape& shape, const ContainerNotation* in) {
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
  return items(shape, n_first, min, max, in);
}

Expr SchemaCompiler::items(const Shape& shape, std::size_t n_first, std::int64_t min, std::int64_t max,
                           const ContainerNotation* in) {
  const auto item = [&](std::size_t index) {
    const ShapeReader::Property place = reader_.item(shape.arrays, index);
    if (!place.is_allowed) return grammar_.never();
    return in != nullptr ? element(*in, std::nullopt, place.schemas) : value_of(place.schemas);
  };
  const auto brackets = [&](Expr elements) {
    return in != nullptr ? around(*in, elements, min == 0) : parts_.brackets("[", elements, "]", min == 0);
  };
  const auto allows = [&](std::int64_t n) { return n >= min && (max == kUnlimited || n <= max); };
  if (n_first == 0) {
    if (max == 0) return brackets(grammar_.never());
    return brackets(parts_.list(item(0), min, max, separator(in)));
  }
  Graph graph;  // state i: after i items
  graph.accepts = {false};
  for (std::size_t i = 0; i < n_first && (max == kUnlimited || static_cast<std::int64_t>(i) < max); ++i) {
    const Expr next = i == 0 ? item(i) : grammar_.sequence({separator(in), item(i)});
    graph.edges.push_back({static_cast<std::int32_t>(i), next, static_cast<std::int32_t>(i + 1)});
    graph.accepts.push_back(allows(graph.n_states++));
  }
  const std::int64_t n = graph.n_states - 1;
  if (n == static_cast<std::int64_t>(n_first) && (max == kUnlimited || n < max)) {
    const Expr rest = grammar_.sequence({separator(in), item(n_first)});
    const std::int64_t most = max == kUnlimited ? kUnlimited : max - n;
    graph.edges.push_back({static_cast<std::int32_t>(n),
                           grammar_.repeat(rest, std::max<std::int64_t>(min - n, 1), most), graph.n_states});
    graph.accepts.push_back(true);
    ++graph.n_states;
  }
  return brackets(grammar_.graph(std::move(graph)));
}

Grammar parse_schema(std::string_view json, bool has_white_space) {
  const OrderedJson root = parse_ordered_json(json, "schema");
  return SchemaCompiler(root, has_white_space).compile();
}

Grammar parse_arguments(std::string_view json, const std::function<Notation(Grammar&)>& notation) {
  if (json.size() > kMaxSourceBytes) {
    throw OutOfCapacity("schema", "expected at most {} bytes, got {}", kMaxSourceBytes, json.size());
  }
  const OrderedJson root = parse_ordered_json(json, "schema");
  return SchemaCompiler(root, true).compile_arguments(notation);
}

}  // namespace vitrine::constrain
