// JSON whose members keep their order and whose numbers keep their spelling, as schemas need it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vitrine::constrain {

struct OrderedJson {
  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool truth = false;
  std::string text{};  ///< A string, or a number as it is spelled.
  std::vector<OrderedJson> items{};
  std::vector<std::pair<std::string, OrderedJson>> members{};

  bool is(Kind k) const { return kind == k; }
  /// The member `key`, or null.
  const OrderedJson* find(std::string_view key) const;
};

/// Parses UTF-8 text. Throws BadInput for a syntax error, or a key that appears twice in one object; OutOfCapacity for
/// more than 512 levels of nesting or 2^20 values.
OrderedJson parse_ordered_json(std::string_view text, std::string_view where);

/// The value as JSON on one line.
std::string json_text(const OrderedJson& value);

/// `text` with quotes, in the only spelling that constraints permit: see docs/constraints.md.
std::string json_string(std::string_view text);
/// How a character below U+0020, a quote or a backslash is spelled in a string.
std::string json_escape(std::uint32_t c);

/// What is wrong with a schema, as a JSON pointer: "#/properties/a". Members of objects are escaped.
std::string json_pointer(const OrderedJson& root, const OrderedJson& place);
/// What a pointer such as "#/$defs/a" leads to; null if nothing.
const OrderedJson* follow_pointer(const OrderedJson& root, std::string_view pointer);

}  // namespace vitrine::constrain
