// JSON whose members keep their order and whose numbers keep their spelling, as schemas need it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
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

/// Where values are in a document.
class JsonPointers {
 public:
  explicit JsonPointers(const OrderedJson& root) : root_(root) {}
  /// A JSON pointer such as "#/properties/a"; "#" for a value that is not in the document.
  std::string of(const OrderedJson& place) const;

 private:
  struct Parent {
    const OrderedJson* value;
    std::size_t index;
  };
  void add(const OrderedJson& value) const;

  const OrderedJson& root_;
  mutable std::unordered_map<const OrderedJson*, Parent> parents_;  // made when they are first needed
};

/// What a pointer such as "#/$defs/a" leads to; null if nothing.
const OrderedJson* follow_pointer(const OrderedJson& root, std::string_view pointer);

}  // namespace vitrine::constrain
