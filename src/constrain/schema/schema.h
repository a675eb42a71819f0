// Compiles a JSON Schema: from what ShapeReader reads to expressions.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/exceptions.h"
#include "constrain/grammar.h"
#include "constrain/schema/json_parts.h"
#include "constrain/schema/notation.h"
#include "constrain/schema/shape.h"

namespace vitrine::constrain {

class SchemaCompiler {
 public:
  /// `root` must outlive the compiler.
  SchemaCompiler(const OrderedJson& root, bool has_white_space);
  Grammar compile();
  /// The same for objects alone, written in `notation` if there is one, which makes it of the grammar.
  Grammar compile_arguments(const std::function<Notation(Grammar&)>& notation);

 private:
  /// What is written for a value: JSON, or what stands in an element of a notation for texts, or for other values.
  struct Form {
    const ContainerNotation* in = nullptr;
    bool is_text = false;
    auto operator<=>(const Form&) const = default;
  };
  /// The members of an object: those that schemas name, in order, then others.
  struct Member {
    std::string name;
    bool is_required;
    Expr expression;
  };

  Grammar compile_rules();
  Expr value_of(const Schemas& schemas) { return value_of(schemas, Form()); }
  Expr value_of(const Schemas& schemas, const Form& form);
  Expr value(const Shape& shape, const OrderedJson& place, const Form& form);
  Expr values(const Shape& shape, const OrderedJson& place, const Form& form);
  Expr number(const Shape& shape, const OrderedJson& place);
  Expr string(const Shape& shape);
  /// The texts of a string that has patterns, before they are spelled.
  Expr text(const Shape& shape);
  /// A text as it is, without any of `ends`.
  Expr plain_text(const Shape& shape, const std::vector<std::string>& ends);
  /// Lists and objects, in a notation or as JSON (null).
  Expr array(const Shape& shape, const ContainerNotation* in);
  Expr items(const Shape& shape, std::size_t n_first, std::int64_t min, std::int64_t max, const ContainerNotation* in);
  Expr object(const Shape& shape, const OrderedJson& place, const ContainerNotation* in);
  Expr separator(const ContainerNotation* in) const { return in != nullptr ? in->separator : parts_.comma(); }
  Expr around(const ContainerNotation& in, Expr elements, bool may_be_empty);
  /// An element of a notation with any way to write its value.
  Expr element(const ContainerNotation& in, std::optional<Expr> key, const Schemas& schemas);
  std::vector<Member> named_members(const Shape& shape, const ContainerNotation* in);
  /// A member with a name that is none of `names`; none if there may be no others.
  std::optional<Expr> other_member(const Shape& shape, const std::vector<std::string>& names, const OrderedJson& place,
                                   const ContainerNotation* in);
  Expr free_member(const ContainerNotation& in, const std::vector<std::string>& names, const Schemas& schemas,
                   const OrderedJson& place);
  std::optional<Expr> pattern_members(const Shape& shape, const std::vector<std::string>& names);
  Expr other_name(const Shape& shape, const std::vector<std::string>& names);
  /// All ways to write members, between the brackets.
  Expr members(const Shape& shape, const std::vector<Member>& named, std::optional<Expr> other,
               const OrderedJson& place, const ContainerNotation* in);
  BadInput no_value() const;
  Unsupported not_json(const OrderedJson& place, std::string_view keyword) const;

  Grammar grammar_;
  ShapeReader reader_;
  JsonParts parts_;
  std::optional<Notation> notation_;
  bool is_arguments_ = false;
  std::map<std::pair<Schemas, Form>, RuleId> rules_;
  std::vector<std::pair<Schemas, Form>> pending_;
  std::map<std::string, RuleId> strings_;
};

}  // namespace vitrine::constrain
