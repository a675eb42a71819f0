// The syntax tree of a template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "template/value.h"

namespace vitrine::jinja {

class Renderer;
struct Arguments;

struct Node {
  int line = 0;
  virtual ~Node() = default;
};

struct Expression : Node {
  enum class Kind : std::uint8_t {
    constant,
    name,
    list,
    tuple,
    dict,
    unary,
    binary,
    logic,
    concat,
    compare,
    conditional,
    attribute,
    item,
    slice,
    call,
    filter,
    test
  } kind;
  explicit Expression(Kind k) : kind(k) {}
};
using Expressions = std::vector<Expression*>;
template <Expression::Kind k>
struct ExpressionOf : Expression {
  ExpressionOf() : Expression(k) {}
};

struct Literal : ExpressionOf<Expression::Kind::constant> {
  Value value;
};
struct Name : ExpressionOf<Expression::Kind::name> {
  std::string_view name;
  std::uint32_t number = 0;    ///< of the name, among those of the template
  std::string_view attribute;  ///< of an assignment to an attribute of a namespace, else empty
};
struct ListLiteral : Expression {
  explicit ListLiteral(bool is_tuple) : Expression(is_tuple ? Kind::tuple : Kind::list) {}
  Expressions items;
};
struct DictLiteral : ExpressionOf<Expression::Kind::dict> {
  Expressions keys, values;
};
using UnaryOperator = Value(const Value& operand);
struct Unary : ExpressionOf<Expression::Kind::unary> {
  UnaryOperator* op = nullptr;
  Expression* operand = nullptr;
};
using BinaryOperator = Value(Renderer& renderer, const Value& left, const Value& right);
struct Binary : ExpressionOf<Expression::Kind::binary> {
  BinaryOperator* op = nullptr;
  Expression *left = nullptr, *right = nullptr;
};
struct Logic : ExpressionOf<Expression::Kind::logic> {
  bool is_or = false;
  Expression *left = nullptr, *right = nullptr;
};
struct Concat : ExpressionOf<Expression::Kind::concat> {
  Expressions items;
};
using Comparison = bool(Renderer& renderer, const Value& left, const Value& right);
struct Compare : ExpressionOf<Expression::Kind::compare> {
  Expression* first = nullptr;
  std::vector<Comparison*> operators;
  Expressions operands;
};
struct Conditional : ExpressionOf<Expression::Kind::conditional> {
  Expression *test = nullptr, *then = nullptr, *otherwise = nullptr;  // otherwise may be null
};
struct Attribute : ExpressionOf<Expression::Kind::attribute> {
  Expression* object = nullptr;
  Value name;
  bool is_key = false;  ///< of a dict it can only be the value of a key: its name is none of a method
};
struct Item : ExpressionOf<Expression::Kind::item> {
  Expression *object = nullptr, *index = nullptr;
};
struct Slice : ExpressionOf<Expression::Kind::slice> {
  Expression *start = nullptr, *stop = nullptr, *step = nullptr;  // each may be null
};

struct Keyword {
  std::string_view name;
  Expression* value;
};
struct CallArguments {
  Expressions positional;
  std::vector<Keyword> keywords;
  Expression *rest = nullptr, *keyword_rest = nullptr;  ///< *rest, **keyword_rest
};
struct Call : ExpressionOf<Expression::Kind::call> {
  Expression* function = nullptr;
  CallArguments arguments;
};

using Builtin = Value(Renderer& renderer, Arguments& arguments);
struct Apply : Expression {
  explicit Apply(Kind k) : Expression(k) {}  ///< filter or test
  Expression* operand = nullptr;             ///< null in a filter block: the text of the block
  std::string_view name;
  Builtin* builtin = nullptr;  ///< null: the name is unknown, which is an error when it is used
  CallArguments arguments;
};

struct Statement : Node {
  enum class Kind : std::uint8_t {
    output,
    condition,
    loop,
    set,
    set_block,
    macro,
    call_block,
    filter_block,
    with,
    generation,
    leave
  } kind;
  explicit Statement(Kind k) : kind(k) {}
};
using Statements = std::vector<Statement*>;
template <Statement::Kind k>
struct StatementOf : Statement {
  StatementOf() : Statement(k) {}
};

/// Template text (`text`), else `{{ value }}`.
struct OutputPart {
  std::string_view text;
  Expression* value = nullptr;
};
struct Output : StatementOf<Statement::Kind::output> {
  std::vector<OutputPart> parts;
};
struct Condition : StatementOf<Statement::Kind::condition> {
  Expressions tests;
  std::vector<Statements> bodies;  ///< one for each test
  Statements otherwise;
};
struct Loop : StatementOf<Statement::Kind::loop> {
  Expression *target = nullptr, *iterable = nullptr, *test = nullptr;  // test may be null
  Statements body, otherwise;
  bool is_recursive = false;
};
/// Parameters and body of a macro or of a call block.
struct MacroCode {
  std::string_view name;  ///< empty for a call block
  std::vector<Name*> parameters;
  Expressions defaults;  ///< of the last parameters
  Statements body;
  bool reads_caller = false, reads_kwargs = false, reads_varargs = false;  ///< not as parameters of its own
};
struct Set : StatementOf<Statement::Kind::set> {
  Expression *target = nullptr, *value = nullptr;
};
struct SetBlock : StatementOf<Statement::Kind::set_block> {
  Expression* target = nullptr;
  Expression* filter = nullptr;  ///< may be null
  Statements body;
};
struct Macro : StatementOf<Statement::Kind::macro> {
  Name* target = nullptr;
  MacroCode function;
};
struct CallBlock : StatementOf<Statement::Kind::call_block> {
  Call* call = nullptr;
  MacroCode caller;
};
struct FilterBlock : StatementOf<Statement::Kind::filter_block> {
  Expression* filter = nullptr;
  Statements body;
};
struct With : StatementOf<Statement::Kind::with> {
  Expressions targets, values;
  Statements body;
};
/// `{% generation %}`: text of the assistant.
struct Generation : StatementOf<Statement::Kind::generation> {
  Statements body;
};
struct Leave : StatementOf<Statement::Kind::leave> {
  bool is_break = false;
};

/// A parsed template, which can be rendered many times.
struct Tree {
  Tree() : heap(kMaxBytes) {
    for (const char* const name : {"loop", "caller", "kwargs", "varargs"}) number_of(name);
  }
  static constexpr std::size_t kMaxBytes = 64 << 20;
  static constexpr std::uint32_t kLoop = 0, kCaller = 1, kKwargs = 2, kVarargs = 3;  ///< in `names`

  template <class T, class... Args>
  T* make(int line, Args&&... args) {
    auto owned = std::make_unique<T>(std::forward<Args>(args)...);
    T* const node = owned.get();
    node->line = line;
    nodes.push_back(std::move(owned));
    return node;
  }
  std::uint32_t number_of(std::string_view name) {
    return names.emplace(name, static_cast<std::uint32_t>(names.size())).first->second;
  }

  Heap heap;  ///< of constants and names
  std::vector<std::unique_ptr<Node>> nodes;
  std::unordered_map<std::string_view, std::uint32_t> names;  ///< of variables, numbered
  struct Use {
    std::string_view name;
    bool is_assignment = false, is_macro = false;
  };
  std::vector<Use> uses;  ///< of names, in the order in which they happen
  Statements body;
};

}  // namespace vitrine::jinja
