// The parts of JSON that every schema has in common: white space, strings, numbers, any value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constrain/grammar.h"
#include "constrain/schema/ordered_json.h"

namespace vitrine::constrain {

constexpr int kAnyDepth = 16;  ///< Levels of brackets of a value that no schema describes.

class JsonParts {
 public:
  JsonParts(Grammar& grammar, bool has_white_space);

  Expr white_space() const { return white_space_; }
  /// A comma, and what may be around it.
  Expr comma() const { return comma_; }
  /// A character of a string, as it is spelled.
  Expr character() const { return character_; }
  /// A string of `min` to `max` characters; kUnlimited: no upper bound.
  Expr string(std::int64_t min = 0, std::int64_t max = kUnlimited);
  /// `text` of the grammar, an expression over the characters of a string's value, as a string.
  Expr spelled(Expr text);
  /// A string that is none of `names`.
  Expr string_except(const std::vector<std::string>& names);
  /// The texts that are none of `names`, over the characters of the value.
  Expr text_except(std::vector<std::string> names);
  Expr integer();
  Expr number();
  /// Any value with at most `depth` levels of brackets.
  Expr any(int depth = kAnyDepth);
  Expr any_object(int depth = kAnyDepth);
  Expr any_array(int depth = kAnyDepth);
  /// A member `"name": value`; `name` is a string.
  Expr member(Expr name, Expr value);
  Expr member(std::string_view name, Expr value);
  /// `open` and `close`, between them `items`, which may be absent if `may_be_empty`.
  Expr brackets(std::string_view open, Expr items, std::string_view close, bool may_be_empty);
  /// `item`, and more of it after `separator`: `min` to `max` in all, at least one.
  Expr list(Expr item, std::int64_t min, std::int64_t max, Expr separator);
  /// The values of an `enum`, as the schema spells them.
  Expr values(const std::vector<const OrderedJson*>& values);

 private:
  Expr value(const OrderedJson& value);
  Expr spelled_set(const CharSet& set);
  Expr spelled_part(Expr text);
  /// A call of the rule `name`, which `make()` gives a body when it is first used.
  template <class Make>
  Expr rule(const std::string& name, Make make);

  Grammar& grammar_;
  Expr white_space_, comma_, character_;
  std::map<std::string, RuleId> rules_;
  std::map<Expr, Expr> spelled_;
};

}  // namespace vitrine::constrain
