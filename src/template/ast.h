// The syntax tree of a template. scopes.h completes it: it says where each variable is stored.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "template/value.h"

namespace vitrine::jinja {

class Renderer;
struct Arguments;

/// Where a variable is: a slot of the running function, or of one `up` functions further out.
struct Slot {
  std::uint16_t up = 0;
  std::uint16_t index = 0;
};

/// What a variable of a scope is when the scope is entered.
struct Load {
  enum class From : std::uint8_t { missing, context, outer } from;
  std::uint16_t slot;
  Slot outer;             ///< the variable that it begins as (`outer`)
  std::string_view name;  ///< in the context (`context`)
};
using Loads = std::vector<Load>;

/// Whether output is escaped: fixed by `{% autoescape %}` with a constant, else known at run time only.
enum class Escape : std::uint8_t { off, on, at_run_time };

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

struct Literal : Expression {
  Literal() : Expression(Kind::constant) {}
  Value value;
};
struct Name : Expression {
  Name() : Expression(Kind::name) {}
  std::string_view name;
  std::string_view attribute;  ///< of an assignment to an attribute of a namespace, else empty
  Slot slot;
};
struct ListLiteral : Expression {
  explicit ListLiteral(bool is_tuple) : Expression(is_tuple ? Kind::tuple : Kind::list) {}
  Expressions items;
};
struct DictLiteral : Expression {
  DictLiteral() : Expression(Kind::dict) {}
  Expressions keys, values;
};
enum class Operator : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
  negative,
  positive,
  logical_not,
  logical_and,
  logical_or
};
struct Unary : Expression {
  Unary() : Expression(Kind::unary) {}
  Operator op{};
  Expression* operand = nullptr;
};
struct Binary : Expression {
  explicit Binary(Kind k) : Expression(k) {}  ///< binary or logic
  Operator op{};
  Expression *left = nullptr, *right = nullptr;
};
struct Concat : Expression {
  Concat() : Expression(Kind::concat) {}
  Expressions items;
  Escape escape{};
};
struct Compare : Expression {
  Compare() : Expression(Kind::compare) {}
  Expression* first = nullptr;
  std::vector<Operator> operators;
  Expressions operands;
};
struct Conditional : Expression {
  Conditional() : Expression(Kind::conditional) {}
  Expression *test = nullptr, *then = nullptr, *otherwise = nullptr;  // otherwise may be null
};
struct Attribute : Expression {
  Attribute() : Expression(Kind::attribute) {}
  Expression* object = nullptr;
  Value name;
};
struct Item : Expression {
  Item() : Expression(Kind::item) {}
  Expression *object = nullptr, *index = nullptr;
};
struct Slice : Expression {
  Slice() : Expression(Kind::slice) {}
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
struct Call : Expression {
  Call() : Expression(Kind::call) {}
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
    autoescape,
    generation,
    block,
    refused,
    leave
  } kind;
  explicit Statement(Kind k) : kind(k) {}
};
using Statements = std::vector<Statement*>;

/// Template text (`text`), else `{{ value }}`.
struct OutputPart {
  std::string_view text;
  Expression* value = nullptr;
};
struct Output : Statement {
  Output() : Statement(Kind::output) {}
  std::vector<OutputPart> parts;
  Escape escape{};
};
struct Condition : Statement {
  Condition() : Statement(Kind::condition) {}
  Expressions tests;
  std::vector<Statements> bodies;  ///< one for each test
  Statements otherwise;
};
struct Loop : Statement {
  Loop() : Statement(Kind::loop) {}
  Expression *target = nullptr, *iterable = nullptr, *test = nullptr;  // test may be null
  Expression* test_target = nullptr;  ///< the target again, as a variable of the test's own function
  Statements body, otherwise;
  bool is_recursive = false;
  bool has_object = false;  ///< the body reads `loop`
  Slot object;
  Loads loads, test_loads, otherwise_loads;
  std::vector<std::uint16_t> leaves;  ///< slots that are missing again after the loop
  std::uint16_t n_slots = 0, n_test_slots = 0;
};
/// Parameters and body of a macro or of a call block; its body is a function of its own.
struct MacroCode {
  std::string_view name;  ///< empty for a call block
  std::vector<Name*> parameters;
  Expressions defaults;  ///< of the last parameters
  Statements body;
  bool reads_caller = false, explicit_caller = false, reads_kwargs = false, reads_varargs = false;
  Slot caller, kwargs, varargs;
  Loads loads;
  std::uint16_t n_slots = 0;
};
struct Set : Statement {
  Set() : Statement(Kind::set) {}
  Expression *target = nullptr, *value = nullptr;
  std::vector<Name*> exported;  ///< variables of the top level, which blocks see too
};
struct SetBlock : Statement {
  SetBlock() : Statement(Kind::set_block) {}
  Expression* target = nullptr;
  Expression* filter = nullptr;  ///< may be null
  Statements body;
  Loads loads;
  std::vector<Name*> exported;
};
struct Macro : Statement {
  Macro() : Statement(Kind::macro) {}
  Name* target = nullptr;
  MacroCode function;
  bool is_exported = false;
};
struct CallBlock : Statement {
  CallBlock() : Statement(Kind::call_block) {}
  Call* call = nullptr;
  MacroCode caller;
};
struct FilterBlock : Statement {
  FilterBlock() : Statement(Kind::filter_block) {}
  Expression* filter = nullptr;
  Statements body;
  Loads loads;
  Escape escape{};
};
struct With : Statement {
  With() : Statement(Kind::with) {}
  Expressions targets, values;
  Statements body;
  Loads loads;
};
/// `{% autoescape value %}`.
struct Autoescape : Statement {
  Autoescape() : Statement(Kind::autoescape) {}
  Expression* value = nullptr;
  Statements body;
  Loads loads;
};
/// `{% generation %}`: text of the assistant. Its body is a call block without parameters.
struct Generation : Statement {
  Generation() : Statement(Kind::generation) {}
  MacroCode body;
  Escape escape{};
};
struct Block : Statement {
  Block() : Statement(Kind::block) {}
  std::string_view name;
  bool is_scoped = false, is_required = false;
  Statements body;
  Loads loads;
  std::vector<std::pair<std::string_view, Slot>> visible;  ///< of a scoped block: the variables that it sees
  bool reads_self = false, reads_super = false;
  Slot self, super;
  std::uint16_t n_slots = 0;
};
/// A statement that needs other templates, which there are none of.
struct Refused : Statement {
  Refused() : Statement(Kind::refused) {}
  Expression* name = nullptr;
  std::string_view tag;
  std::vector<std::string_view> targets;  ///< variables that it would set
};
struct Leave : Statement {
  Leave() : Statement(Kind::leave) {}
  bool is_break = false;
};

/// A parsed template, which can be rendered many times.
struct Tree {
  Tree() : heap(kMaxBytes) {}
  static constexpr std::size_t kMaxBytes = 64 << 20;

  template <class T, class... Args>
  T* make(int line, Args&&... args) {
    auto owned = std::make_unique<T>(std::forward<Args>(args)...);
    T* const node = owned.get();
    node->line = line;
    nodes.push_back(std::move(owned));
    return node;
  }

  Heap heap;  ///< of constants and names
  std::vector<std::unique_ptr<Node>> nodes;
  Statements body;
  std::vector<Block*> blocks;
  Loads loads;
  bool reads_self = false;
  Slot self;
  std::uint16_t n_slots = 0;
};

}  // namespace vitrine::jinja
