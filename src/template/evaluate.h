// Renders a syntax tree: evaluates its expressions and executes its statements.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "template/ast.h"
#include "template/renderer.h"

namespace vitrine::jinja {

/// The variables that a loop, a macro or another block has for itself. A block sees the variables of the scopes around
/// the place where it is written; what it assigns is its own.
struct Scope {
  struct Variable {
    std::uint32_t number;  ///< of its name
    Value value;
  };
  Scope(Heap& heap, Scope* o) : outer(o), variables(heap.resource()) {}
  void set(std::uint32_t number, const Value& value);

  Scope* outer;  ///< null: the template, whose variables are the evaluator's
  std::pmr::vector<Variable> variables;
};

class LoopObject;

class Evaluator final : public Renderer {
 public:
  Evaluator(const Tree& tree, Heap& heap, const Dict& variables, const TemplateClock& clock,
            const TemplateLimits& limits, Origins* origins)
      : Renderer(heap, clock, limits.steps, origins),
        tree_(tree),
        context_(variables),
        globals_(tree.names.size()),
        max_output_(limits.output_bytes),
        root_(origins) {}

  /// Renders the template.
  Draft run();
  /// The characters [begin, end) of each `{% generation %}`.
  const std::vector<std::pair<std::int64_t, std::int64_t>>& spans() const { return spans_; }

 private:
  friend class LoopObject;
  friend class MacroValue;
  enum class Flow { on, leave_loop, next_item };
  Nested nested() { return {depth_, 1000, "macros, loops and expressions"}; }

  // variables
  Value variable(const Name& name);
  void set(const Name& name, const Value& value);
  void assign(const Expression& target, const Value& value);
  void check_namespaces(const Expression& target);
  Namespace& namespace_of(const Name& name);
  /// Calls `body` in a new scope inside `outer`.
  template <class Body>
  auto in_scope(Scope* outer, Body&& body) {
    const Nested level = nested();
    Scope* const caller = std::exchange(scope_, heap().make<Scope>(heap(), outer));
    auto result = body();
    scope_ = caller;
    return result;
  }

  // expressions
  Value evaluate(const Expression& e);
  Value evaluate_list(const ListLiteral& e);
  Value evaluate_dict(const DictLiteral& e);
  Value evaluate_concat(const Concat& e);
  Value evaluate_compare(const Compare& e);
  Value evaluate_conditional(const Conditional& e);
  Value evaluate_attribute(const Attribute& e);
  Value evaluate_item(const Item& e);
  Value evaluate_call(const Call& e, const Value* caller);
  /// Applies a filter or test. `text` is what the first of the filters of a block is applied to.
  Value evaluate_apply(const Apply& e, const Value* text);
  void add_arguments(Arguments& arguments, const CallArguments& e);
  Value apply_builtin(Builtin& builtin, Arguments& arguments);

  // statements
  Flow execute(const Statements& body);
  Flow execute(const Statement& s);
  void output(const Output& s);
  Flow condition(const Condition& s);
  Flow loop(const Loop& s, Scope* outer, const Value& iterable, std::int64_t depth);
  Value recursive_loop(const Loop& s, Scope* outer, const Value& iterable, std::int64_t depth);
  Flow set_block(const SetBlock& s);
  Flow filter_block(const FilterBlock& s);
  Flow with(const With& s);
  void generation(const Generation& s);
  /// Executes `body` with a new buffer; returns what it wrote.
  template <class Body>
  Draft captured(Body&& body) {
    Draft buffer(origins_);
    Draft* const outer = std::exchange(out_, &buffer);
    body();
    out_ = outer;
    return buffer;
  }
  void write(const Value& value);
  void check_output() const;

  const Tree& tree_;
  const Dict& context_;
  Scope* scope_ = nullptr;
  std::vector<Value> globals_;  ///< the template's variables by number; `missing` before the first use
  std::size_t max_output_;
  Draft root_;           ///< what the template itself has written
  Draft* out_ = &root_;  ///< where output goes now
  std::size_t counted_bytes_ = 0;
  std::int64_t counted_ = 0;  ///< the characters in the first `counted_bytes_` of `root_`
  std::vector<std::pair<std::int64_t, std::int64_t>> spans_;
  int depth_ = 0;
};

/// Appends a value to text that is being written; numbers are the template's own.
void append(Draft& out, const Value& value);

/// The variable `loop`, and what the loop reads its items from.
class LoopObject final : public Object {
 public:
  LoopObject(Evaluator& evaluator, const Loop& loop, Scope* outer, const Value& iterable, std::int64_t depth0)
      : evaluator_(evaluator),
        loop_(loop),
        outer_(outer),
        iterable_(iterable),
        iteration_(evaluator, iterable),
        depth0_(depth0) {}
  bool next(Value& item);

  std::string_view type_name() const override { return "LoopContext"; }
  std::string repr() const override;
  Value attribute(Renderer& renderer, std::string_view name) override;
  std::int64_t size() override { return length(); }
  Value call(Renderer& renderer, Arguments& arguments) override;

 private:
  static Value cycle(Renderer&, Arguments&);
  static Value changed(Renderer&, Arguments&);
  bool pull(Value& item);
  bool peek();
  std::int64_t length();

  Evaluator& evaluator_;
  const Loop& loop_;
  Scope* outer_;
  Value iterable_;
  Iteration iteration_;
  std::int64_t index0_ = -1, length_ = -1, depth0_;
  Value before_{}, current_{}, after_{}, last_changed_{};
  List* rest_ = nullptr;  ///< the items that were read to count them
  std::size_t rest_at_ = 0;
  bool has_after_ = false;
};

/// A macro, or the body of a call block.
class MacroValue final : public Object {
 public:
  MacroValue(Evaluator& evaluator, const MacroCode& code, Scope* outer)
      : evaluator_(evaluator), code_(code), outer_(outer) {}
  std::string_view type_name() const override { return "Macro"; }
  std::string repr() const override;
  Value attribute(Renderer& renderer, std::string_view name) override;
  Value call(Renderer& renderer, Arguments& arguments) override;

 private:
  void bind(Arguments& arguments);

  Evaluator& evaluator_;
  const MacroCode& code_;
  Scope* outer_;
};

}  // namespace vitrine::jinja
