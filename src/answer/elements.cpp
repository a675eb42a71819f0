#include "answer/elements.h"

#include <algorithm>

#include "answer/literal.h"
#include "answer/marks.h"

namespace vitrine::answer {
namespace {

constexpr int kMaxNested = 32;
constexpr std::int64_t kMaxTries = 100'000;

/// The types of JSON, as bits.
enum Type : unsigned {
  kIsText = 1,
  kIsNumber = 2,
  kIsTruth = 4,
  kIsNull = 8,
  kIsList = 16,
  kIsObject = 32,
  kAnyType = 63
};

unsigned type_named(std::string_view name) {
  if (name == "string") return kIsText;
  if (name == "number" || name == "integer") return kIsNumber;
  if (name == "boolean") return kIsTruth;
  if (name == "null") return kIsNull;
  return name == "array" ? kIsList : name == "object" ? kIsObject : kAnyType;
}

unsigned type_of(const OrderedJson& value) {
  if (value.is_string()) return kIsText;
  if (value.is_number()) return kIsNumber;
  if (value.is_boolean()) return kIsTruth;
  return value.is_null() ? kIsNull : value.is_array() ? kIsList : kIsObject;
}

/// The types that a schema permits, as far as it says so without references.
unsigned types_of(const OrderedJson& schema, int depth = 0) {
  constexpr int kMaxDepth = 8;
  if (!schema.is_object() || depth > kMaxDepth) return kAnyType;
  unsigned types = kAnyType;
  const auto restrict_to_any = [&](const char* name, auto&& type) {
    if (!schema.contains(name) || !schema[name].is_array()) return;
    unsigned some = 0;
    for (const OrderedJson& one : schema[name]) some |= type(one);
    types &= some;
  };
  if (schema.contains("type") && schema["type"].is_string()) types &= type_named(schema["type"].get<std::string>());
  restrict_to_any("type",
                  [](const OrderedJson& t) { return t.is_string() ? type_named(t.get<std::string>()) : kAnyType; });
  restrict_to_any("enum", type_of);
  if (schema.contains("const")) types &= type_of(schema["const"]);
  for (const char* const name : {"anyOf", "oneOf"}) {
    restrict_to_any(name, [&](const OrderedJson& one) { return types_of(one, depth + 1); });
  }
  return types;
}

/// Whether a schema says that a value is a text; none if it may be something else, too.
std::optional<bool> is_text(const OrderedJson& schema) {
  const unsigned types = types_of(schema);
  if ((types & kIsText) == 0) return false;
  return types == kIsText ? std::optional(true) : std::nullopt;
}

const OrderedJson kUnknown;

/// The schema of a member of an object, or of the items of a list.
const OrderedJson& schema_of(const OrderedJson& schema, const std::string* key) {
  if (!schema.is_object()) return kUnknown;
  if (key == nullptr) return schema.contains("items") ? schema["items"] : kUnknown;
  if (!schema.contains("properties") || !schema["properties"].is_object()) return kUnknown;
  const OrderedJson& members = schema["properties"];
  return members.contains(*key) ? members[*key] : kUnknown;
}

}  // namespace

bool ElementReader::starts(std::string_view text, std::string_view literal) const {
  const Match found = match(text, literal, false);
  notes_.reached_end = notes_.reached_end || found == Match::partial;
  return found == Match::yes;
}

bool ElementReader::take_mark(std::string_view& text, std::string_view literal) const {
  if (!starts(text, literal)) return false;
  text.remove_prefix(literal.size());
  return true;
}

std::size_t ElementReader::find(std::string_view text, std::string_view literal, std::size_t from) const {
  const std::size_t at = text.find(literal, from);
  notes_.reached_end = notes_.reached_end || at == text.npos;
  return at;
}

std::optional<OrderedJson> ElementReader::read(const OrderedJson& schema, std::string_view& text) const {
  OrderedJson all = has_keys_ ? OrderedJson::object() : OrderedJson::array();
  std::string_view rest = text;
  if (!take_empty(rest) && !elements(schema, all, rest)) return std::nullopt;
  if (!container_.close.empty()) rest.remove_prefix(container_.close.size());
  text = rest;
  return all;
}

bool ElementReader::take_empty(std::string_view& text) const {
  std::string_view rest = text;
  if (!container_.empty || !take_mark(rest, *container_.empty) || !ends(rest)) return false;
  text = rest;
  return true;
}

bool ElementReader::ends(std::string_view text) const {
  return close_.empty() ? !starts(text, container_.separator) : starts(text, close_);
}

bool ElementReader::elements(const OrderedJson& schema, OrderedJson& all, std::string_view& text) const {
  std::string_view separator = container_.open;
  do {
    std::string_view rest = text;
    std::optional<Element> read;
    if (take_mark(rest, separator)) read = element(schema, rest);
    if (!read) return may_end_open(!all.empty());
    if (has_keys_) {
      all[read->key] = std::move(read->value);
    } else {
      all.push_back(std::move(read->value));
    }
    text = rest;
    separator = container_.separator;
  } while (!ends(text));
  return true;
}

std::optional<Element> ElementReader::element(const OrderedJson& schema, std::string_view& text) const {
  for (const bool as_text : order(schema, text)) {
    if (auto read = form(as_text, schema, text)) return read;
  }
  return std::nullopt;
}

std::vector<bool> ElementReader::order(const OrderedJson& schema, std::string_view text) const {
  if (++notes_.tries > kMaxTries) return {};
  if (container_.of_text.empty()) return {false};
  const std::string key = key_at(text);
  const std::optional<bool> says = is_text(schema_of(schema, has_keys_ ? &key : nullptr));
  if (says.value_or(false)) return {true, false};
  return {false, true};
}

/// The key with which an element begins, if it has one.
std::string ElementReader::key_at(std::string_view text) const {
  std::size_t size = 0;
  for (const auto* const parts : {&container_.of_text, &container_.of_other}) {
    if (parts->size() < 2 || (*parts)[0].kind != CallPart::Kind::key || (*parts)[1].kind != CallPart::Kind::text)
      return "";
    const std::size_t found = text.find((*parts)[1].text);
    if (size == 0 || found < size) size = found;
  }
  notes_.reached_end = notes_.reached_end || size == text.npos;
  return size == text.npos ? "" : std::string(text.substr(0, size));
}

std::optional<std::string> ElementReader::before_value(bool as_text, std::string_view& text) const {
  std::string_view rest = text;
  std::string key;
  const auto& parts = as_text ? container_.of_text : container_.of_other;
  for (std::size_t i = 0; i < parts.size() && parts[i].kind != CallPart::Kind::value; ++i) {
    if (parts[i].kind != CallPart::Kind::key) {
      if (!take_mark(rest, parts[i].text)) return std::nullopt;
    } else if (!key.empty()) {
      if (!take_mark(rest, key)) return std::nullopt;
    } else {
      const std::size_t size = find(rest, i + 1 < parts.size() ? parts[i + 1].text : std::string_view());
      if (size == rest.npos || size == 0) return std::nullopt;
      key = rest.substr(0, size);
      rest.remove_prefix(size);
    }
  }
  text = rest;
  return key;
}

std::string ElementReader::after_value(bool as_text, std::string_view key) const {
  std::string after;
  bool is_after = false;
  for (const CallPart& part : as_text ? container_.of_text : container_.of_other) {
    if (is_after) after += part.kind == CallPart::Kind::key ? key : std::string_view(part.text);
    is_after = is_after || part.kind == CallPart::Kind::value;
  }
  return after;
}

std::optional<Element> ElementReader::form(bool as_text, const OrderedJson& schema, std::string_view& text) const {
  std::string_view rest = text;
  const std::optional<std::string> key = before_value(as_text, rest);
  if (!key) return std::nullopt;
  const std::string after = after_value(as_text, *key);
  const std::string_view from_value = rest;
  OrderedJson value;
  if (as_text) {
    const std::size_t size = text_size(rest, after);
    if (size == rest.npos) return std::nullopt;
    value = std::string(rest.substr(0, size));
    rest.remove_prefix(size);
  } else {
    const OrderedJson& own = schema_of(schema, has_keys_ ? &*key : nullptr);
    auto read = other_value(own, rest);
    if (!read) return std::nullopt;
    // Of "12" where a text or null is wanted, the text is meant.
    const unsigned types = types_of(own);
    if (!container_.of_text.empty() && (types & kIsText) != 0 && (types & type_of(*read)) == 0) return std::nullopt;
    value = std::move(*read);
  }
  const std::string_view spelled = from_value.substr(0, from_value.size() - rest.size());
  if (!take_mark(rest, after) || !ends_or_goes_on(rest)) return std::nullopt;
  text = rest;
  return Element{*key, std::move(value), spelled};
}

/// The size of a text, which goes up to what the element and the container put after it; npos: nothing does.
std::size_t ElementReader::text_size(std::string_view text, std::string_view after) const {
  std::size_t at = find(text, after);
  while (at != text.npos && !ends_or_goes_on(text.substr(at + after.size()))) at = find(text, after, at + 1);
  return at;
}

std::optional<OrderedJson> ElementReader::other_value(const OrderedJson& schema, std::string_view& text) const {
  const auto says = [&](std::string_view type) { return schema.is_object() && schema.value("type", "") == type; };
  const bool is_known = schema.is_object() && schema.contains("type") && schema["type"].is_string();
  for (const bool is_object : {false, true}) {  // an item may look like a member
    if (notation_.kind != Notation::Kind::nested || depth_ >= kMaxNested) break;
    if (is_known && !says(is_object ? "object" : "array")) continue;
    const Container& nested = is_object ? notation_.object : notation_.list;
    if (!is_known && !starts(text, nested.open)) continue;  // an empty one may have no text
    std::string_view rest = text;
    const ElementReader reader(nested, notation_, nested.close, is_object, notes_, depth_ + 1);
    if (std::optional<OrderedJson> value = reader.read(schema, rest)) {
      text = rest;
      return value;
    }
  }
  auto literal = read_literal(text, notes_.reached_end);
  if (!literal) return std::nullopt;
  if (notation_.kind == Notation::Kind::nested && literal->first.is_structured()) return std::nullopt;
  text.remove_prefix(literal->second);
  return std::move(literal->first);
}

}  // namespace vitrine::answer
