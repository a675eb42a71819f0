// Objects: the properties that a schema names, in its order, then other members.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "constrain/char_nfa.h"
#include "constrain/free_text.h"
#include "constrain/regex.h"
#include "constrain/schema/member_graph.h"
#include "constrain/schema/schema.h"

namespace vitrine::constrain {
namespace {

using Kind = OrderedJson::Kind;

}  // namespace

std::vector<SchemaCompiler::Member> SchemaCompiler::named_members(const Shape& shape, const ContainerNotation* in) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const OrderedJson* schema : shape.objects) {
    const OrderedJson* own = schema->find("properties");
    if (own == nullptr) continue;
    for (const auto& [name, value] : own->members) {
      if (known.insert(name).second) names.push_back(name);
    }
  }
  const std::vector<std::string> required = ShapeReader::required(shape.objects);
  for (const std::string& name : required) {  // names that only `required` has come after those of `properties`
    if (known.insert(name).second) names.push_back(name);
  }
  const std::set<std::string> needed(required.begin(), required.end());
  std::vector<Member> members;
  for (const std::string& name : names) {
    const ShapeReader::Property place = reader_.property(shape.objects, name);
    bool is_allowed = place.is_allowed;
    if (!place.is_named && place.schemas.empty()) {  // in no schema: allowed if others are
      const bool is_closed = std::any_of(shape.objects.begin(), shape.objects.end(), [](const OrderedJson* s) {
        return s->find("properties") != nullptr || s->find("patternProperties") != nullptr ||
               s->find("unevaluatedProperties") != nullptr;
      });
      is_allowed &= !is_closed;
    }
    Expr member = grammar_.never();
    if (is_allowed && in != nullptr) {
      member = element(*in, grammar_.text(name), place.schemas);
    } else if (is_allowed) {
      member = parts_.member(name, value_of(place.schemas));
    }
    members.push_back({name, needed.count(name) != 0, member});
  }
  return members;
}

std::optional<Expr> SchemaCompiler::other_member(const Shape& shape, const std::vector<std::string>& names,
                                                 const OrderedJson& place, const ContainerNotation* in) {
  bool has_named = false, has_patterns = false;
  Schemas others;
  for (const OrderedJson* schema : shape.objects) {
    has_patterns |= schema->find("patternProperties") != nullptr;
    has_named |= schema->find("properties") != nullptr || schema->find("unevaluatedProperties") != nullptr;
    const OrderedJson* own = schema->find("additionalProperties");
    if (own != nullptr) others.push_back(own);
  }
  std::sort(others.begin(), others.end());
  const bool is_closed =
      std::any_of(others.begin(), others.end(), [](const OrderedJson* s) { return s->is(Kind::boolean) && !s->truth; });
  if (has_patterns) {
    if (!is_closed && !others.empty()) {
      throw Unsupported(reader_.where(place, "patternProperties"),
                        "patternProperties is supported only with additionalProperties false");
    }
    if (in != nullptr) throw not_json(place, "patternProperties");
    return pattern_members(shape, names);
  }
  if (is_closed || (has_named && others.empty())) return std::nullopt;
  if (in != nullptr) {
    for (const OrderedJson* schema : shape.objects) {
      if (schema->find("propertyNames") != nullptr) throw not_json(*schema, "propertyNames");
    }
    return free_member(*in, names, others, place);
  }
  return parts_.member(other_name(shape, names), value_of(others));
}

Unsupported SchemaCompiler::not_json(const OrderedJson& place, std::string_view keyword) const {
  return {reader_.where(place, keyword), "is not supported where the chat template does not write JSON"};
}

Expr SchemaCompiler::free_member(const ContainerNotation& in, const std::vector<std::string>& names,
                                 const Schemas& schemas, const OrderedJson& place) {
  if (in.key_end.empty()) throw not_json(place, "additionalProperties");
  const std::string where = reader_.where(place);
  const CharNfa others(grammar_, parts_.text_except(names), where);
  const CharNfa ended(grammar_, text_without(grammar_, {&in.key_end, 1}), where);
  const CharNfa name = others.both(ended, where).both(CharNfa::of_length(1, kUnlimited), where);
  return element(in, name.expression(grammar_), schemas);
}

std::optional<Expr> SchemaCompiler::pattern_members(const Shape& shape, const std::vector<std::string>& names) {
  struct Named {
    CharNfa texts;
    const OrderedJson* value;
  };
  std::vector<Named> patterns;
  std::vector<Expr> ways;
  for (const OrderedJson* schema : shape.objects) {
    if (schema->find("propertyNames") != nullptr ||
        (schema->find("patternProperties") == nullptr && shape.objects.size() > 1 &&
         schema->find("additionalProperties") != nullptr)) {
      throw Unsupported(reader_.where(*schema),
                        "patternProperties together with other rules for names is not supported");
    }
    const OrderedJson* own = schema->find("patternProperties");
    if (own == nullptr) continue;
    const std::string where = reader_.where(*schema, "patternProperties");
    for (const auto& [regex, value] : own->members) {
      const Expr pattern = parse_regex(grammar_, regex, RegexUse::search, where);
      CharNfa texts(grammar_, pattern, where);
      for (const Named& other : patterns) {
        if (texts.both(other.texts, where).is_empty()) continue;
        throw Unsupported(where, "patterns of patternProperties that match the same name are not supported");
      }
      const bool overlaps = std::any_of(names.begin(), names.end(), [&](const auto& n) { return texts.matches(n); });
      const Expr name =
          overlaps ? texts.both(CharNfa(grammar_, parts_.text_except(names), where), where).expression(grammar_)
                   : pattern;
      ways.push_back(parts_.member(parts_.spelled(name), value_of({&value})));
      patterns.push_back({std::move(texts), &value});
    }
  }
  if (ways.empty()) return std::nullopt;
  return grammar_.choice(std::move(ways));
}

Expr SchemaCompiler::other_name(const Shape& shape, const std::vector<std::string>& names) {
  Schemas rules;
  for (const OrderedJson* schema : shape.objects) {
    if (const OrderedJson* own = schema->find("propertyNames")) rules.push_back(own);
  }
  if (rules.empty()) return parts_.string_except(names);
  std::sort(rules.begin(), rules.end());
  std::vector<Expr> ways;
  for (const Shape& name : reader_.read(rules)) {
    if ((name.types & kString) == 0) continue;
    if (name.values) {
      std::vector<const OrderedJson*> texts;
      for (const OrderedJson* v : *name.values) {
        const bool is_named = std::find(names.begin(), names.end(), v->text) != names.end();
        if (v->is(Kind::string) && !is_named && reader_.is_valid(*v, name)) texts.push_back(v);
      }
      ways.push_back(parts_.values(texts));
      continue;
    }
    const bool is_plain = name.patterns.empty();
    if (is_plain && names.empty()) {
      ways.push_back(parts_.string(name.min_length, name.max_length));
      continue;
    }
    const std::string where = reader_.where(*rules.back());
    const Expr any = grammar_.repeat(grammar_.set(CharSet::all()), name.min_length, name.max_length);
    const Expr own = is_plain ? any : text(name);
    if (names.empty()) {
      ways.push_back(parts_.spelled(own));
      continue;
    }
    const CharNfa rest = CharNfa(grammar_, own, where).both(CharNfa(grammar_, parts_.text_except(names), where), where);
    ways.push_back(parts_.spelled(rest.expression(grammar_)));
  }
  return grammar_.choice(std::move(ways));
}

Expr SchemaCompiler::object(const Shape& shape, const OrderedJson& place, const ContainerNotation* in) {
  const std::vector<Member> named = named_members(shape, in);
  std::vector<std::string> names;
  for (const Member& m : named) names.push_back(m.name);
  const std::optional<Expr> other = other_member(shape, names, place, in);
  const bool may_be_empty = shape.min_properties == 0 &&
                            std::none_of(named.begin(), named.end(), [](const Member& m) { return m.is_required; });
  const Expr all = members(shape, named, other, place, in);
  return in != nullptr ? around(*in, all, may_be_empty) : parts_.brackets("{", all, "}", may_be_empty);
}

Expr SchemaCompiler::members(const Shape& shape, const std::vector<Member>& named, std::optional<Expr> other,
                             const OrderedJson& place, const ContainerNotation* in) {
  const auto n_required = std::count_if(named.begin(), named.end(), [](const Member& m) { return m.is_required; });
  MemberCounts counts{shape.min_properties, shape.max_properties, n_required};
  if (other && counts.min > n_required + 1) {
    throw Unsupported(reader_.where(place, "minProperties"),
                      "minProperties more than one above the required ones is not supported where names are free, "
                      "because names may repeat");
  }
  MemberGraph graph(grammar_, separator(in), counts);
  for (const Member& m : named) graph.add(m.expression, m.is_required);
  return graph.finish(other, reader_.where(place));
}

}  // namespace vitrine::constrain
