// Whether a value is valid: for the values of `enum` and `const`, names of properties, and disjoint alternatives.
#include <algorithm>

#include "constrain/char_nfa.h"
#include "constrain/regex.h"
#include "constrain/schema/shape.h"
#include "tokenizer/utf8.h"

namespace vitrine::constrain {
namespace {

using Kind = OrderedJson::Kind;

unsigned type_of(const OrderedJson& value) {
  switch (value.kind) {
    case Kind::null:
      return kNull;
    case Kind::boolean:
      return kBoolean;
    case Kind::number:
      return kNumber;
    case Kind::string:
      return kString;
    case Kind::array:
      return kArray;
    case Kind::object:
      return kObject;
  }
  return 0;
}

bool is_between(std::int64_t n, std::int64_t min, std::int64_t max) { return min <= n && (max < 0 || n <= max); }

void insert_schema(Schemas& schemas, const OrderedJson* schema) {
  const auto at = std::lower_bound(schemas.begin(), schemas.end(), schema);
  if (at == schemas.end() || *at != schema) schemas.insert(at, schema);
}

void add_schema(ShapeReader::Property& property, const OrderedJson* schema) {
  if (schema->is(Kind::boolean) && !schema->truth) property.is_allowed = false;
  insert_schema(property.schemas, schema);
}

}  // namespace

bool equal(const OrderedJson& a, const OrderedJson& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::null:
      return true;
    case Kind::boolean:
      return a.truth == b.truth;
    case Kind::number: {
      Decimal x = Decimal::parse(a.text), y = Decimal::parse(b.text);
      return x == y;
    }
    case Kind::string:
      return a.text == b.text;
    case Kind::array:
      return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), equal);
    case Kind::object:
      return a.members.size() == b.members.size() &&
             std::all_of(a.members.begin(), a.members.end(), [&](const auto& m) {
               const OrderedJson* other = b.find(m.first);
               return other != nullptr && equal(m.second, *other);
             });
  }
  return false;
}

bool ShapeReader::matches(const Pattern& pattern, const std::string& text) {
  Grammar grammar;
  const Expr regex = parse_regex(grammar, pattern.regex, RegexUse::search, pattern.where);
  return CharNfa(grammar, regex, pattern.where).matches(text);
}

const OrderedJson* ShapeReader::find_member(const OrderedJson& object, const std::string& name) {
  constexpr std::size_t kFew = 16;
  if (object.members.size() <= kFew) return object.find(name);
  auto& index = members_[&object];
  if (index.empty()) {
    for (const auto& [key, value] : object.members) index.emplace(key, &value);
  }
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

ShapeReader::Property ShapeReader::property(const Schemas& objects, const std::string& name) {
  Property result;
  for (const OrderedJson* schema : objects) {
    bool is_matched = false;
    const OrderedJson* own = schema->find("properties");
    if (const OrderedJson* named = own != nullptr ? find_member(*own, name) : nullptr) {
      add_schema(result, named);
      is_matched = result.is_named = true;
    }
    if (const OrderedJson* patterns = schema->find("patternProperties")) {
      for (const auto& [regex, value] : patterns->members) {
        if (!matches({regex, where(*schema, "patternProperties")}, name)) continue;
        add_schema(result, &value);
        is_matched = true;
      }
    }
    if (const OrderedJson* others = schema->find("additionalProperties"); others != nullptr && !is_matched) {
      add_schema(result, others);
    }
    if (const OrderedJson* names = schema->find("propertyNames")) {
      const OrderedJson text{.kind = Kind::string, .text = name};
      result.is_allowed &= is_valid(text, Schemas{names});
    }
  }
  return result;
}

ShapeReader::Property ShapeReader::item(const Schemas& arrays, std::size_t index) {
  Property result;
  for (const OrderedJson* schema : arrays) {
    const OrderedJson* first = schema->find("prefixItems");
    const OrderedJson* others = schema->find("items");
    if (first == nullptr && others != nullptr && others->is(Kind::array)) {  // the spelling of drafts 4 to 2019
      first = others;
      others = schema->find("additionalItems");
    }
    if (first != nullptr && index < first->items.size()) {
      add_schema(result, &first->items[index]);
      result.is_named = true;
    } else if (others != nullptr) {
      add_schema(result, others);
    }
  }
  return result;
}

std::vector<std::string> ShapeReader::required(const Schemas& objects) {
  std::vector<std::string> names;
  for (const OrderedJson* schema : objects) {
    const OrderedJson* own = schema->find("required");
    if (own == nullptr) continue;
    for (const OrderedJson& name : own->items) {
      if (std::find(names.begin(), names.end(), name.text) == names.end()) names.push_back(name.text);
    }
  }
  return names;
}

bool ShapeReader::is_valid(const OrderedJson& value, const Schemas& schemas) {
  const std::vector<Shape> shapes = read(schemas);
  return std::any_of(shapes.begin(), shapes.end(), [&](const Shape& s) { return is_valid(value, s); });
}

bool ShapeReader::is_valid(const OrderedJson& value, const Shape& shape) {
  if ((shape.types & type_of(value)) == 0) return false;
  if (shape.values && std::none_of(shape.values->begin(), shape.values->end(),
                                   [&](const OrderedJson* v) { return equal(value, *v); })) {
    return false;
  }
  switch (value.kind) {
    case Kind::number:
      return shape.number.allows(Decimal::parse(value.text));
    case Kind::string: {
      std::int64_t length = 0;
      for_each_character(value.text, [&](std::uint32_t, std::string_view) { ++length; });
      return is_between(length, shape.min_length, shape.max_length) &&
             std::all_of(shape.patterns.begin(), shape.patterns.end(),
                         [&](const Pattern& p) { return matches(p, value.text); });
    }
    case Kind::array:
      if (!is_between(static_cast<std::int64_t>(value.items.size()), shape.min_items, shape.max_items)) return false;
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        const Property place = item(shape.arrays, i);
        if (!place.is_allowed || !is_valid(value.items[i], place.schemas)) return false;
      }
      return true;
    case Kind::object: {
      const auto n = static_cast<std::int64_t>(value.members.size());
      if (!is_between(n, shape.min_properties, shape.max_properties)) return false;
      for (const auto& [name, member] : value.members) {
        const Property place = property(shape.objects, name);
        if (!place.is_allowed || !is_valid(member, place.schemas)) return false;
      }
      const std::vector<std::string> names = required(shape.objects);
      return std::all_of(names.begin(), names.end(), [&](const auto& name) { return value.find(name) != nullptr; });
    }
    default:
      return true;
  }
}

bool ShapeReader::are_disjoint(const OrderedJson& a, const OrderedJson& b, int depth) {
  const std::vector<Shape> of_a = read({&a}), of_b = read({&b});
  return std::all_of(of_a.begin(), of_a.end(), [&](const Shape& x) {
    return std::all_of(of_b.begin(), of_b.end(), [&](const Shape& y) { return are_disjoint(x, y, depth); });
  });
}

bool ShapeReader::are_disjoint(const Shape& a, const Shape& b, int depth) {
  const auto none_is_valid = [&](const std::vector<const OrderedJson*>& values, Shape own, const Shape& other) {
    own.values.reset();  // all of them are among the values
    return std::none_of(values.begin(), values.end(),
                        [&](const OrderedJson* v) { return is_valid(*v, own) && is_valid(*v, other); });
  };
  if (a.values) return none_is_valid(*a.values, a, b);
  if (b.values) return none_is_valid(*b.values, b, a);
  const unsigned common = a.types & b.types;
  if (common == 0) return true;
  if ((common & ~(kNumber | kObject)) != 0) return false;
  if ((common & kNumber) != 0) {
    NumberLimits both = a.number;
    if (b.number.min) both.raise_min(*b.number.min);
    if (b.number.max) both.lower_max(*b.number.max);
    if (!both.is_empty()) return false;
  }
  return (common & kObject) == 0 || objects_are_disjoint(a, b, depth);
}

bool ShapeReader::objects_are_disjoint(const Shape& a, const Shape& b, int depth) {
  const std::vector<std::string> of_a = required(a.objects), of_b = required(b.objects);
  for (const std::string& name : of_a) {
    if (!property(b.objects, name).is_allowed) return true;
    if (depth == 0 || std::find(of_b.begin(), of_b.end(), name) == of_b.end()) continue;
    const std::vector<Shape> x = read(property(a.objects, name).schemas), y = read(property(b.objects, name).schemas);
    const bool differ = std::all_of(x.begin(), x.end(), [&](const Shape& s) {
      return std::all_of(y.begin(), y.end(), [&](const Shape& t) { return are_disjoint(s, t, depth - 1); });
    });
    if (differ) return true;
  }
  return std::any_of(of_b.begin(), of_b.end(), [&](const auto& name) { return !property(a.objects, name).is_allowed; });
}

}  // namespace vitrine::constrain
