// The keywords of a schema: those that are read, those without effect, and the types of their values.
#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "constrain/schema/shape.h"

namespace vitrine::constrain {
namespace {

using Kind = OrderedJson::Kind;

constexpr std::string_view kSupported[] = {"type",
                                           "enum",
                                           "const",
                                           "properties",
                                           "required",
                                           "additionalProperties",
                                           "patternProperties",
                                           "propertyNames",
                                           "minProperties",
                                           "maxProperties",
                                           "items",
                                           "prefixItems",
                                           "additionalItems",
                                           "minItems",
                                           "maxItems",
                                           "minLength",
                                           "maxLength",
                                           "pattern",
                                           "format",
                                           "minimum",
                                           "maximum",
                                           "exclusiveMinimum",
                                           "exclusiveMaximum",
                                           "multipleOf",
                                           "anyOf",
                                           "oneOf",
                                           "allOf",
                                           "$ref",
                                           "$defs",
                                           "definitions",
                                           "nullable",
                                           "unevaluatedProperties",
                                           "unevaluatedItems"};
constexpr std::string_view kWithoutEffect[] = {"$schema",  "$comment",  "title",        "description",
                                               "default",  "examples",  "example",      "deprecated",
                                               "readOnly", "writeOnly", "discriminator"};
template <std::size_t n>
bool is_in(const std::string_view (&list)[n], std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

}  // namespace

void ShapeReader::check_keywords(const OrderedJson& schema) {
  if (!checked_.insert(&schema).second) return;
  for (const auto& [keyword, value] : schema.members) {
    if (is_in(kSupported, keyword) || is_in(kWithoutEffect, keyword) || keyword.starts_with("x-")) continue;
    if (keyword == "$id" && &schema == &root_) continue;
    throw Unsupported(where(schema), "the keyword {} is not supported", keyword);
  }
  for (const std::string_view keyword : {"unevaluatedProperties", "unevaluatedItems"}) {
    const OrderedJson* value = schema.find(keyword);
    if (value != nullptr && !(value->is(Kind::boolean) && !value->truth)) {
      throw Unsupported(where(schema), "{} is supported only with the value false", keyword);
    }
  }
  const std::pair<std::string_view, Kind> kinds[] = {{"properties", Kind::object}, {"patternProperties", Kind::object},
                                                     {"required", Kind::array},    {"prefixItems", Kind::array},
                                                     {"anyOf", Kind::array},       {"oneOf", Kind::array},
                                                     {"allOf", Kind::array},       {"enum", Kind::array},
                                                     {"pattern", Kind::string},    {"format", Kind::string},
                                                     {"$ref", Kind::string},       {"nullable", Kind::boolean}};
  for (const auto& [keyword, kind] : kinds) {
    const OrderedJson* value = schema.find(keyword);
    if (value != nullptr && !value->is(kind)) {
      constexpr std::array<std::string_view, 6> kNames = {"null",     "a boolean", "a number",
                                                          "a string", "a list",    "an object"};
      throw BadInput(where(schema, keyword), "expected {}", kNames[static_cast<std::size_t>(kind)]);
    }
  }
  if (const OrderedJson* names = schema.find("required")) {
    for (const OrderedJson& name : names->items) {
      if (!name.is(Kind::string)) throw BadInput(where(schema, "required"), "expected names");
    }
  }
}

}  // namespace vitrine::constrain
