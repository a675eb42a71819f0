#include "constrain/schema/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "constrain/grammar.h"

namespace vitrine::constrain {
namespace {

using Kind = OrderedJson::Kind;

constexpr std::size_t kMaxAlternatives = 2000;

unsigned type_bits(std::string_view name) {
  if (name == "null") return kNull;
  if (name == "boolean") return kBoolean;
  if (name == "integer" || name == "number") return kNumber;
  if (name == "string") return kString;
  if (name == "array") return kArray;
  if (name == "object") return kObject;
  return 0;
}

bool has_any(const OrderedJson& schema, std::initializer_list<std::string_view> keywords) {
  return std::any_of(keywords.begin(), keywords.end(), [&](auto k) { return schema.find(k) != nullptr; });
}

void insert(Schemas& schemas, const OrderedJson* schema) {
  const auto at = std::lower_bound(schemas.begin(), schemas.end(), schema);
  if (at == schemas.end() || *at != schema) schemas.insert(at, schema);
}

}  // namespace

bool Shape::is_any() const {
  return types == kAllTypes && !values && !number.is_integer && !number.has_limits() && min_length == 0 &&
         max_length == kUnlimited && patterns.empty() && min_items == 0 && max_items == kUnlimited &&
         min_properties == 0 && max_properties == kUnlimited && arrays.empty() && objects.empty();
}

std::string ShapeReader::where(const OrderedJson& schema, std::string_view keyword) const {
  std::string pointer = "schema " + pointers_.of(schema);
  return keyword.empty() ? pointer : fmt::format("{}/{}", pointer, keyword);
}

std::vector<Shape> ShapeReader::read(const Schemas& schemas) {
  std::vector<Shape> shapes(1);
  for (const OrderedJson* schema : schemas) apply(*schema, shapes);
  return shapes;
}

void ShapeReader::apply(const OrderedJson& schema, std::vector<Shape>& shapes) {
  if (schema.is(Kind::boolean)) {
    if (!schema.truth) shapes.clear();
    return;
  }
  if (!schema.is(Kind::object)) throw BadInput(where(schema), "expected a schema: an object, true or false");
  if (std::find(active_.begin(), active_.end(), &schema) != active_.end()) {
    throw Unsupported(where(schema), "a $ref loop that no value ends");
  }
  active_.push_back(&schema);
  apply_keywords(schema, shapes);
  active_.pop_back();
}

void ShapeReader::apply_keywords(const OrderedJson& schema, std::vector<Shape>& shapes) {
  check_keywords(schema);
  for (Shape& shape : shapes) {
    apply_type(schema, shape);
    apply_values(schema, shape);
    apply_number(schema, shape);
    apply_string(schema, shape);
    apply_counts(schema, shape);
    if (has_any(schema, {"properties", "required", "additionalProperties", "patternProperties", "propertyNames",
                         "unevaluatedProperties"})) {
      insert(shape.objects, &schema);
    }
    if (has_any(schema, {"items", "prefixItems", "additionalItems", "unevaluatedItems"})) insert(shape.arrays, &schema);
  }
  drop_impossible(schema, shapes);
  if (const OrderedJson* reference = schema.find("$ref")) {
    const OrderedJson* target = follow_pointer(root_, reference->text);
    if (target == nullptr)
      throw Unsupported(where(schema, "$ref"), "$ref \"{}\" leads to nothing in the document", reference->text);
    apply_reference(schema, *target, shapes);
  }
  if (const OrderedJson* all = schema.find("allOf")) {
    for (const OrderedJson& part : all->items) apply(part, shapes);
  }
  apply_alternatives(schema, "anyOf", shapes);
  apply_alternatives(schema, "oneOf", shapes);
}

void ShapeReader::apply_reference(const OrderedJson& schema, const OrderedJson& target, std::vector<Shape>& shapes) {
  if (std::find(active_.begin(), active_.end(), &target) != active_.end()) {
    throw Unsupported(where(schema, "$ref"), "a $ref loop that reads nothing");
  }
  apply(target, shapes);
}

void ShapeReader::apply_alternatives(const OrderedJson& schema, std::string_view keyword, std::vector<Shape>& shapes) {
  const OrderedJson* branches = schema.find(keyword);
  if (branches == nullptr) return;
  if (branches->items.empty()) throw BadInput(where(schema, keyword), "expected at least one schema");
  if (keyword == "oneOf" && disjoint_.insert(branches).second) {
    constexpr std::size_t kMaxDisjoint = 256;
    if (branches->items.size() > kMaxDisjoint) {
      throw OutOfCapacity(where(schema, keyword), "expected at most {} alternatives of oneOf", kMaxDisjoint);
    }
    for (std::size_t i = 0; i < branches->items.size(); ++i) {
      for (std::size_t k = i + 1; k < branches->items.size(); ++k) {
        if (are_disjoint(branches->items[i], branches->items[k], 4)) continue;
        throw Unsupported(where(schema, keyword),
                          "alternatives {} and {} of oneOf are not provably disjoint; use anyOf", i, k);
      }
    }
  }
  std::vector<Shape> all;
  for (const OrderedJson& branch : branches->items) {
    std::vector<Shape> with_branch = shapes;
    apply(branch, with_branch);
    all.insert(all.end(), with_branch.begin(), with_branch.end());
    if (all.size() > kMaxAlternatives) {
      throw OutOfCapacity(where(schema, keyword), "expected at most {} alternatives of one value", kMaxAlternatives);
    }
  }
  shapes = std::move(all);
}

void ShapeReader::apply_type(const OrderedJson& schema, Shape& shape) {
  const OrderedJson* type = schema.find("type");
  if (type == nullptr) return;
  unsigned bits = 0;
  bool has_integer = false, has_number = false;
  const auto add = [&](const OrderedJson& name) {
    const unsigned bit = name.is(Kind::string) ? type_bits(name.text) : 0;
    if (bit == 0) throw BadInput(where(schema, "type"), "expected a type of JSON, got \"{}\"", name.text);
    bits |= bit;
    has_integer |= name.text == "integer";
    has_number |= name.text == "number";
  };
  if (type->is(Kind::array)) {
    for (const OrderedJson& name : type->items) add(name);
  } else {
    add(*type);
  }
  if (const OrderedJson* nullable = schema.find("nullable"); nullable != nullptr && nullable->truth) bits |= kNull;
  shape.types &= bits;
  if (has_integer && !has_number) shape.number.is_integer = true;
}

void ShapeReader::apply_values(const OrderedJson& schema, Shape& shape) {
  const auto keep = [&](const std::vector<const OrderedJson*>& values) {
    if (!shape.values) {
      shape.values = values;
      return;
    }
    constexpr std::size_t kMaxPairs = 10'000'000;
    if (values.size() > kMaxPairs / std::max<std::size_t>(shape.values->size(), 1)) {
      throw OutOfCapacity(where(schema, "enum"), "two lists of {} and {} values for one value are too long",
                          shape.values->size(), values.size());
    }
    std::erase_if(*shape.values, [&](const OrderedJson* v) {
      return std::none_of(values.begin(), values.end(), [&](const OrderedJson* w) { return equal(*v, *w); });
    });
  };
  if (const OrderedJson* values = schema.find("enum")) {
    std::vector<const OrderedJson*> all;
    for (const OrderedJson& v : values->items) all.push_back(&v);
    keep(all);
  }
  if (const OrderedJson* value = schema.find("const")) keep({value});
}

const OrderedJson* ShapeReader::number(const OrderedJson& schema, std::string_view keyword) const {
  const OrderedJson* value = schema.find(keyword);
  if (value != nullptr && !value->is(Kind::number)) throw BadInput(where(schema, keyword), "expected a number");
  return value;
}

void ShapeReader::apply_number(const OrderedJson& schema, Shape& shape) {
  // Draft 4 spells an excluded bound as a flag next to the bound.
  const auto is_flag = [&](std::string_view keyword, bool& flag) {
    const OrderedJson* value = schema.find(keyword);
    if (value == nullptr || !value->is(Kind::boolean)) return false;
    flag = value->truth;
    return true;
  };
  bool excludes_min = false, excludes_max = false;
  const bool min_is_flag = is_flag("exclusiveMinimum", excludes_min);
  const bool max_is_flag = is_flag("exclusiveMaximum", excludes_max);
  const auto bound = [](const OrderedJson& value, bool excluded) {
    return Bound{Decimal::parse(value.text), excluded};
  };
  if (const OrderedJson* v = number(schema, "minimum")) shape.number.raise_min(bound(*v, excludes_min));
  if (const OrderedJson* v = number(schema, "maximum")) shape.number.lower_max(bound(*v, excludes_max));
  if (!min_is_flag) {
    if (const OrderedJson* v = number(schema, "exclusiveMinimum")) shape.number.raise_min(bound(*v, true));
  }
  if (!max_is_flag) {
    if (const OrderedJson* v = number(schema, "exclusiveMaximum")) shape.number.lower_max(bound(*v, true));
  }
  if (const OrderedJson* v = number(schema, "multipleOf")) {
    Decimal unit = Decimal::parse(v->text);
    if (unit.is_zero() || unit.negative) throw BadInput(where(schema, "multipleOf"), "expected a number above 0");
    if (std::find(shape.number.multiples_of.begin(), shape.number.multiples_of.end(), unit) ==
        shape.number.multiples_of.end()) {
      shape.number.multiples_of.push_back(std::move(unit));
    }
  }
}

std::optional<std::int64_t> ShapeReader::count(const OrderedJson& schema, std::string_view keyword) const {
  const OrderedJson* value = schema.find(keyword);
  if (value == nullptr) return std::nullopt;
  const Decimal n = value->is(Kind::number) ? Decimal::parse(value->text) : Decimal{true, "1", 0};
  if (n.negative || !n.is_integer())
    throw BadInput(where(schema, keyword), "expected a whole number from 0 for {}", keyword);
  if (n.exponent > 9 ||
      (n.exponent > 0 &&
       std::stoll(n.digits + std::string(static_cast<std::size_t>(n.exponent) - n.digits.size(), '0')) > kMaxCount)) {
    throw OutOfCapacity(where(schema, keyword), "expected a count of at most {} for {}", kMaxCount, keyword);
  }
  if (n.is_zero()) return 0;
  return std::stoll(n.digits + std::string(static_cast<std::size_t>(n.exponent) - n.digits.size(), '0'));
}

void ShapeReader::apply_string(const OrderedJson& schema, Shape& shape) {
  const auto lower = [](std::int64_t& max, std::optional<std::int64_t> to) {
    if (to) max = max == kUnlimited ? *to : std::min(max, *to);
  };
  shape.min_length = std::max(shape.min_length, count(schema, "minLength").value_or(0));
  lower(shape.max_length, count(schema, "maxLength"));
  const auto add = [&](std::string regex, std::string_view keyword) {
    const bool is_known =
        std::any_of(shape.patterns.begin(), shape.patterns.end(), [&](const Pattern& p) { return p.regex == regex; });
    if (!is_known) shape.patterns.push_back({std::move(regex), where(schema, keyword)});
  };
  if (const OrderedJson* pattern = schema.find("pattern")) add(pattern->text, "pattern");
  if (const OrderedJson* format = schema.find("format")) {
    std::optional<std::string> regex = format_regex(format->text);
    if (!regex) throw Unsupported(where(schema, "format"), "the format \"{}\" is not supported", format->text);
    add(std::move(*regex), "format");
  }
}

void ShapeReader::apply_counts(const OrderedJson& schema, Shape& shape) {
  const auto lower = [](std::int64_t& max, std::optional<std::int64_t> to) {
    if (to) max = max == kUnlimited ? *to : std::min(max, *to);
  };
  shape.min_items = std::max(shape.min_items, count(schema, "minItems").value_or(0));
  lower(shape.max_items, count(schema, "maxItems"));
  shape.min_properties = std::max(shape.min_properties, count(schema, "minProperties").value_or(0));
  lower(shape.max_properties, count(schema, "maxProperties"));
}

void ShapeReader::drop_impossible(const OrderedJson& schema, std::vector<Shape>& shapes) {
  const auto exclude = [&](Shape& shape, unsigned type, std::string_view keyword) {
    if ((shape.types & type) == 0) return;
    shape.types &= ~type;
    conflict_ = where(schema, keyword);
  };
  const auto is_crossed = [](std::int64_t min, std::int64_t max) { return max != kUnlimited && min > max; };
  for (Shape& shape : shapes) {
    if (shape.types == 0) conflict_ = where(schema, "type");
    if (shape.number.is_empty()) exclude(shape, kNumber, has_any(schema, {"maximum"}) ? "maximum" : "minimum");
    if (is_crossed(shape.min_length, shape.max_length)) exclude(shape, kString, "maxLength");
    if (is_crossed(shape.min_items, shape.max_items)) exclude(shape, kArray, "maxItems");
    if (is_crossed(shape.min_properties, shape.max_properties)) exclude(shape, kObject, "maxProperties");
    if (shape.values && shape.values->empty()) {
      shape.types = 0;
      conflict_ = where(schema, schema.find("const") != nullptr ? "const" : "enum");
    }
  }
  std::erase_if(shapes, [](const Shape& s) { return s.types == 0; });
}

}  // namespace vitrine::constrain
