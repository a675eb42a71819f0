// Compiles a JSON Schema: from what ShapeReader reads to expressions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/exceptions.h"
#include "constrain/grammar.h"
#include "constrain/schema/json_parts.h"
#include "constrain/schema/shape.h"

namespace vitrine::constrain {

class SchemaCompiler {
 public:
  /// `root` must outlive the compiler.
  SchemaCompiler(const OrderedJson& root, bool has_white_space);
  Grammar compile();

 private:
  /// The members of an object: those that schemas name, in order, then others.
  struct Member {
    std::string name;
    bool is_required;
    Expr expression;
  };

  Expr value_of(const Schemas& schemas);
  Expr value(const Shape& shape, const OrderedJson& place);
  Expr number(const Shape& shape, const OrderedJson& place);
  Expr string(const Shape& shape);
  /// The texts of a string that has patterns, before they are spelled.
  Expr text(const Shape& shape);
  Expr array(const Shape& shape);
  Expr items(const Shape& shape, std::size_t n_first, std::int64_t min, std::int64_t max);
  Expr object(const Shape& shape, const OrderedJson& place);
  std::vector<Member> named_members(const Shape& shape);
  /// A member with a name that is none of `names`; none if there may be no others.
  std::optional<Expr> other_member(const Shape& shape, const std::vector<std::string>& names, const OrderedJson& place);
  std::optional<Expr> pattern_members(const Shape& shape, const std::vector<std::string>& names);
  Expr other_name(const Shape& shape, const std::vector<std::string>& names);
  /// All ways to write members, between the brackets.
  Expr members(const Shape& shape, const std::vector<Member>& named, std::optional<Expr> other,
               const OrderedJson& place);
  BadInput no_value() const;

  Grammar grammar_;
  ShapeReader reader_;
  JsonParts parts_;
  std::map<Schemas, RuleId> rules_;
  std::vector<Schemas> pending_;
  std::map<std::string, RuleId> strings_;
};

}  // namespace vitrine::constrain
