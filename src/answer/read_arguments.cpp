#include "answer/literal.h"
#include "answer/marks.h"
#include "answer/parse.h"

namespace vitrine::answer {
namespace {

constexpr int kMaxNested = 32;
/// Elements that are tried, some of them in several ways.
constexpr std::int64_t kMaxTries = 100'000;

/// Whether a schema says that a value is a text; none if it does not say.
std::optional<bool> is_text(const OrderedJson& schema) {
  if (!schema.is_object() || !schema.contains("type")) return std::nullopt;
  const OrderedJson& type = schema["type"];
  if (type.is_string()) return type == "string";
  if (!type.is_array()) return std::nullopt;
  bool has_text = false, has_other = false;
  for (const OrderedJson& one : type) (one == "string" ? has_text : has_other) = true;
  if (has_text && has_other) return std::nullopt;
  return has_text;
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

/// Reads the elements of a Container.
class ContainerReader {
 public:
  ContainerReader(const Container& container, const Notation& notation, std::string_view close, bool has_keys,
                  int depth, std::int64_t& tries)
      : container_(container), notation_(notation), close_(close), has_keys_(has_keys), depth_(depth), tries_(tries) {}

  std::optional<OrderedJson> read(const OrderedJson& schema, std::string_view& text) const {
    OrderedJson all = has_keys_ ? OrderedJson::object() : OrderedJson::array();
    std::string_view rest = text;
    const bool is_empty = container_.empty && take(rest, *container_.empty) && ends(rest);
    if (!is_empty && !elements(schema, all, rest = text)) return std::nullopt;
    if (!container_.close.empty()) rest.remove_prefix(container_.close.size());
    text = rest;
    return all;
  }

 private:
  /// Whether nothing but what closes the container can follow.
  bool ends(std::string_view text) const {
    return close_.empty() ? !text.starts_with(container_.separator) : text.starts_with(close_);
  }

  bool elements(const OrderedJson& schema, OrderedJson& all, std::string_view& text) const {
    std::string_view separator = container_.open;
    do {
      std::string_view rest = text;
      if (!take(rest, separator) || !element(schema, all, rest)) {
        // Without anything that closes it, a container ends where no element follows.
        return close_.empty() && (!all.empty() || container_.empty == "");
      }
      text = rest;
      separator = container_.separator;
    } while (!ends(text));
    return true;
  }

  bool element(const OrderedJson& schema, OrderedJson& all, std::string_view& text) const {
    if (++tries_ > kMaxTries) return false;
    for (const bool as_text : order(schema, text)) {
      std::string_view rest = text;
      if (form(as_text ? container_.of_text : container_.of_other, as_text, schema, all, rest)) {
        text = rest;
        return true;
      }
    }
    return false;
  }

  /// What to try, text or other values: what the schema says, else what fits.
  std::vector<bool> order(const OrderedJson& schema, std::string_view text) const {
    if (container_.of_text.empty()) return {false};
    const std::string key = key_at(text);
    const std::optional<bool> says = is_text(schema_of(schema, has_keys_ ? &key : nullptr));
    if (says.value_or(false)) return {true, false};
    return {false, true};
  }

  /// The key with which an element begins, if it has one.
  std::string key_at(std::string_view text) const {
    std::size_t size = 0;
    for (const auto* const parts : {&container_.of_text, &container_.of_other}) {
      if (parts->size() < 2 || (*parts)[0].kind != CallPart::Kind::key || (*parts)[1].kind != CallPart::Kind::text)
        return "";
      const std::size_t found = text.find((*parts)[1].text);
      if (size == 0 || found < size) size = found;
    }
    return size == text.npos ? "" : std::string(text.substr(0, size));
  }

  bool form(const std::vector<CallPart>& parts, bool as_text, const OrderedJson& schema, OrderedJson& all,
            std::string_view& text) const {
    std::string key;
    bool has_key = false;
    OrderedJson value;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const CallPart& part = parts[i];
      switch (part.kind) {
        case CallPart::Kind::key:
          if (has_key) {
            if (!take(text, key)) return false;
          } else {
            const std::string_view after = i + 1 < parts.size() ? parts[i + 1].text : std::string_view();
            const std::size_t size = text.find(after);
            if (size == text.npos || size == 0) return false;
            key = text.substr(0, size);
            text.remove_prefix(size);
            has_key = true;
          }
          break;
        case CallPart::Kind::value: {
          const OrderedJson& inner = schema_of(schema, has_keys_ ? &key : nullptr);
          const std::optional<OrderedJson> read = as_text ? text_value(parts, i, key, text) : other_value(inner, text);
          if (!read) return false;
          value = *read;
          break;
        }
        default:
          if (!take(text, part.text)) return false;
      }
    }
    if (!ends(text) && !text.starts_with(container_.separator)) return false;
    if (has_keys_) {
      all[key] = std::move(value);
    } else {
      all.push_back(std::move(value));
    }
    return true;
  }

  /// A text up to what the element and the container put after it.
  std::optional<OrderedJson> text_value(const std::vector<CallPart>& parts, std::size_t i, const std::string& key,
                                        std::string_view& text) const {
    std::string after;
    for (std::size_t k = i + 1; k < parts.size(); ++k)
      after += parts[k].kind == CallPart::Kind::key ? key : parts[k].text;
    for (std::size_t at = text.find(after); at != text.npos; at = text.find(after, at + 1)) {
      const std::string_view rest = text.substr(at + after.size());
      if (!ends(rest) && !rest.starts_with(container_.separator)) continue;
      OrderedJson value = std::string(text.substr(0, at));
      text.remove_prefix(at);
      return value;
    }
    return std::nullopt;
  }

  std::optional<OrderedJson> other_value(const OrderedJson& schema, std::string_view& text) const {
    const auto says = [&](std::string_view type) { return schema.is_object() && schema.value("type", "") == type; };
    const bool is_known = schema.is_object() && schema.contains("type") && schema["type"].is_string();
    for (const bool is_object : {false, true}) {  // an item may look like a member
      if (notation_.kind != Notation::Kind::nested || depth_ >= kMaxNested) break;
      if (is_known && !says(is_object ? "object" : "array")) continue;
      const Container& nested = is_object ? notation_.object : notation_.list;
      if (!is_known && !text.starts_with(nested.open)) continue;  // an empty one may have no text
      std::string_view rest = text;
      const ContainerReader reader(nested, notation_, nested.close, is_object, depth_ + 1, tries_);
      if (std::optional<OrderedJson> value = reader.read(schema, rest)) {
        text = rest;
        return value;
      }
    }
    auto literal = read_literal(text);
    if (!literal) return std::nullopt;
    if (notation_.kind == Notation::Kind::nested && literal->first.is_structured()) return std::nullopt;
    text.remove_prefix(literal->second);
    return std::move(literal->first);
  }

  const Container& container_;
  const Notation& notation_;
  std::string_view close_;
  bool has_keys_;
  int depth_;
  std::int64_t& tries_;
};

}  // namespace

std::optional<OrderedJson> read_arguments(const ArgumentsFormat& format, const OrderedJson& schema,
                                          std::string_view after, std::string_view& text) {
  if (format.kind == ArgumentsFormat::Kind::json) {
    auto value = read_json(text);
    if (!value || !value->first.is_object() || !text.substr(value->second).starts_with(after)) return std::nullopt;
    text.remove_prefix(value->second);
    return std::move(value->first);
  }
  std::int64_t tries = 0;
  return ContainerReader(format.members, format.notation, after, true, 0, tries).read(schema, text);
}

}  // namespace vitrine::answer
