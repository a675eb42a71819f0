// Visits the parts of a syntax tree.
#pragma once

#include "template/ast.h"

namespace vitrine::jinja {

template <class Visit>
void for_each_argument(const CallArguments& arguments, Visit&& visit) {
  for (Expression* const argument : arguments.positional) visit(*argument);
  for (const Keyword& keyword : arguments.keywords) visit(*keyword.value);
  if (arguments.rest != nullptr) visit(*arguments.rest);
  if (arguments.keyword_rest != nullptr) visit(*arguments.keyword_rest);
}

/// Calls `visit(expression)` for the direct parts of an expression.
template <class Visit>
void for_each_part(Expression& e, Visit&& visit) {
  using Sort = Expression::Kind;
  const auto some = [&](Expression* part) {
    if (part != nullptr) visit(*part);
  };
  switch (e.kind) {
    case Sort::constant:
    case Sort::name:
      return;
    case Sort::list:
    case Sort::tuple:
      for (Expression* const item : static_cast<ListLiteral&>(e).items) visit(*item);
      return;
    case Sort::dict:
      for (std::size_t i = 0; i < static_cast<DictLiteral&>(e).keys.size(); ++i) {
        visit(*static_cast<DictLiteral&>(e).keys[i]);
        visit(*static_cast<DictLiteral&>(e).values[i]);
      }
      return;
    case Sort::unary:
      return visit(*static_cast<Unary&>(e).operand);
    case Sort::binary:
    case Sort::logic:
      visit(*static_cast<Binary&>(e).left);
      return visit(*static_cast<Binary&>(e).right);
    case Sort::concat:
      for (Expression* const item : static_cast<Concat&>(e).items) visit(*item);
      return;
    case Sort::compare:
      visit(*static_cast<Compare&>(e).first);
      for (Expression* const operand : static_cast<Compare&>(e).operands) visit(*operand);
      return;
    case Sort::conditional:
      some(static_cast<Conditional&>(e).test);
      some(static_cast<Conditional&>(e).then);
      return some(static_cast<Conditional&>(e).otherwise);
    case Sort::attribute:
      return visit(*static_cast<Attribute&>(e).object);
    case Sort::item:
      visit(*static_cast<Item&>(e).object);
      return visit(*static_cast<Item&>(e).index);
    case Sort::slice:
      some(static_cast<Slice&>(e).start);
      some(static_cast<Slice&>(e).stop);
      return some(static_cast<Slice&>(e).step);
    case Sort::call:
      visit(*static_cast<Call&>(e).function);
      return for_each_argument(static_cast<Call&>(e).arguments, visit);
    case Sort::filter:
    case Sort::test:
      some(static_cast<Apply&>(e).operand);
      return for_each_argument(static_cast<Apply&>(e).arguments, visit);
  }
}

/// Visits whole trees: `load` and `store` for the names that are read and assigned, `enter` for statements. Derived
/// classes hide what they need. Bodies of blocks are not visited, because blocks are functions of their own.
template <class Derived>
class Walker {
 public:
  void statements(const Statements& body) {
    for (Statement* const statement : body) self().statement(*statement);
  }
  void expression(Expression& e) {
    if (e.kind == Expression::Kind::name) return self().load(static_cast<Name&>(e));
    for_each_part(e, [this](Expression& part) { expression(part); });
  }
  void target(Expression& e) {
    if (e.kind == Expression::Kind::name) return self().store(static_cast<Name&>(e));
    for_each_part(e, [this](Expression& part) { target(part); });
  }
  void function(MacroCode& f) {
    for (Name* const parameter : f.parameters) self().store(*parameter);
    for (Expression* const value : f.defaults) expression(*value);
    statements(f.body);
  }
  void statement(Statement& s);

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
  void some(Expression* e) {
    if (e != nullptr) expression(*e);
  }
};

template <class Derived>
void Walker<Derived>::statement(Statement& s) {
  using Sort = Statement::Kind;
  switch (s.kind) {
    case Sort::output:
      for (const OutputPart& part : static_cast<Output&>(s).parts) some(part.value);
      return;
    case Sort::condition: {
      auto& condition = static_cast<Condition&>(s);
      for (std::size_t i = 0; i < condition.tests.size(); ++i) {
        expression(*condition.tests[i]);
        statements(condition.bodies[i]);
      }
      return statements(condition.otherwise);
    }
    case Sort::loop: {
      auto& loop = static_cast<Loop&>(s);
      target(*loop.target);
      expression(*loop.iterable);
      statements(loop.body);
      statements(loop.otherwise);
      return some(loop.test);
    }
    case Sort::set:
      target(*static_cast<Set&>(s).target);
      return expression(*static_cast<Set&>(s).value);
    case Sort::set_block:
      target(*static_cast<SetBlock&>(s).target);
      some(static_cast<SetBlock&>(s).filter);
      return statements(static_cast<SetBlock&>(s).body);
    case Sort::macro:
      return function(static_cast<Macro&>(s).function);
    case Sort::call_block:
      expression(*static_cast<CallBlock&>(s).call);
      return function(static_cast<CallBlock&>(s).caller);
    case Sort::filter_block:
      statements(static_cast<FilterBlock&>(s).body);
      return some(static_cast<FilterBlock&>(s).filter);
    case Sort::with:
      for (Expression* const t : static_cast<With&>(s).targets) target(*t);
      for (Expression* const value : static_cast<With&>(s).values) expression(*value);
      return statements(static_cast<With&>(s).body);
    case Sort::autoescape:
      some(static_cast<Autoescape&>(s).value);
      return statements(static_cast<Autoescape&>(s).body);
    case Sort::generation:
      return function(static_cast<Generation&>(s).body);
    case Sort::refused:
      return some(static_cast<Refused&>(s).name);
    case Sort::block:
    case Sort::leave:
      return;
  }
}

}  // namespace vitrine::jinja
