// What keywords say about a value: the schemas that apply to it, as one or several alternatives.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "constrain/schema/numbers.h"
#include "constrain/schema/ordered_json.h"

namespace vitrine::constrain {

/// Types of JSON, as bits.
enum Type : unsigned {
  kNull = 1,
  kBoolean = 2,
  kNumber = 4,
  kString = 8,
  kArray = 16,
  kObject = 32,
  kAllTypes = 63,
};

/// The schemas that a value must satisfy together, ascending by address and without repetition.
using Schemas = std::vector<const OrderedJson*>;

struct Pattern {
  std::string regex;
  std::string where;  ///< In errors.
};

/// One alternative: a value that satisfies all of it.
struct Shape {
  unsigned types = kAllTypes;
  std::optional<std::vector<const OrderedJson*>> values{};  ///< Of `enum` and `const`.
  NumberLimits number{};
  std::int64_t min_length = 0, max_length = -1;  ///< In characters; below, kUnlimited is -1.
  std::vector<Pattern> patterns{};
  std::int64_t min_items = 0, max_items = -1;
  std::int64_t min_properties = 0, max_properties = -1;
  Schemas arrays{}, objects{};  ///< Schemas with keywords of arrays, and of objects.

  bool is_any() const;
};

/// Reads the keywords of schemas. Everything that it does not know is refused, with the place.
class ShapeReader {
 public:
  explicit ShapeReader(const OrderedJson& root) : root_(root), pointers_(root) {}

  /// The alternatives of a value that satisfies all of `schemas`.
  std::vector<Shape> read(const Schemas& schemas);
  /// Whether `value` is valid.
  bool is_valid(const OrderedJson& value, const Schemas& schemas);
  bool is_valid(const OrderedJson& value, const Shape& shape);

  /// The schemas of a property, of those in `objects`; none if it is not allowed. `matched` says whether one names it.
  struct Property {
    bool is_allowed = true;
    bool is_named = false;
    Schemas schemas{};
  };
  Property property(const Schemas& objects, const std::string& name);
  /// The schemas of the item at `index`.
  Property item(const Schemas& arrays, std::size_t index);
  /// The names of `required`, in order.
  static std::vector<std::string> required(const Schemas& objects);
  /// Whether `name` matches a pattern of `patternProperties`.
  bool matches(const Pattern& pattern, const std::string& text);

  const OrderedJson& root() const { return root_; }
  /// "schema #/properties/a", or with a keyword, "schema #/properties/a/type".
  std::string where(const OrderedJson& schema, std::string_view keyword = "") const;
  /// The keyword that made the last alternative impossible, with its place; "": none.
  const std::string& conflict() const { return conflict_; }

 private:
  void apply(const OrderedJson& schema, std::vector<Shape>& shapes);
  void apply_keywords(const OrderedJson& schema, std::vector<Shape>& shapes);
  void check_keywords(const OrderedJson& schema);
  void apply_reference(const OrderedJson& schema, const OrderedJson& target, std::vector<Shape>& shapes);
  void apply_alternatives(const OrderedJson& schema, std::string_view keyword, std::vector<Shape>& shapes);
  void apply_type(const OrderedJson& schema, Shape& shape);
  void apply_values(const OrderedJson& schema, Shape& shape);
  void apply_number(const OrderedJson& schema, Shape& shape);
  void apply_string(const OrderedJson& schema, Shape& shape);
  void apply_counts(const OrderedJson& schema, Shape& shape);
  void drop_impossible(const OrderedJson& schema, std::vector<Shape>& shapes);
  std::optional<std::int64_t> count(const OrderedJson& schema, std::string_view keyword) const;
  const OrderedJson* number(const OrderedJson& schema, std::string_view keyword) const;
  bool are_disjoint(const OrderedJson& a, const OrderedJson& b, int depth);
  bool are_disjoint(const Shape& a, const Shape& b, int depth);
  bool objects_are_disjoint(const Shape& a, const Shape& b, int depth);

  /// A member of `object`, through an index if there are many.
  const OrderedJson* find_member(const OrderedJson& object, const std::string& name);

  const OrderedJson& root_;
  JsonPointers pointers_;
  std::unordered_map<const OrderedJson*, std::unordered_map<std::string_view, const OrderedJson*>> members_;
  std::set<const OrderedJson*> checked_;
  std::set<const OrderedJson*> disjoint_;   // oneOf that have been checked
  std::vector<const OrderedJson*> active_;  // the schemas being applied
  std::string conflict_;
};

/// Equality of JSON values: members in any order, numbers by value.
bool equal(const OrderedJson& a, const OrderedJson& b);

/// The regex of a format that constraints know; none for another.
std::optional<std::string> format_regex(std::string_view format);

}  // namespace vitrine::constrain
