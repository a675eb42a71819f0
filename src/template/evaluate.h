// Renders a syntax tree: evaluates its expressions and executes its statements.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "template/ast.h"
#include "template/objects.h"
#include "template/renderer.h"

namespace vitrine::jinja {

/// A call of a function: the values of its slots, and the call of the function around it.
struct Activation {
  Activation* outer;
  Value* slots;
};

class Evaluator final : public Renderer {
 public:
  Evaluator(const Tree& tree, Heap& heap, const Dict& variables, const TemplateClock& clock,
            const TemplateLimits& limits, Origins* origins)
      : Renderer(heap, clock, limits.steps),
        tree_(tree),
        variables_(variables),
        max_output_(limits.output_bytes),
        root_(origins) {
    origins_ = origins;
  }

  /// Renders the template.
  Draft run();
  /// The characters [begin, end) of each `{% generation %}`.
  const std::vector<std::pair<std::int64_t, std::int64_t>>& spans() const { return spans_; }

  Value evaluate(const Expression& e);

 private:
  friend class LoopObject;
  friend class FilteredIterator;
  friend class MacroValue;
  friend class BlockReference;
  enum class Flow { on, leave_loop, next_item };
  /// Bounds the recursion.
  class Nesting {
   public:
    explicit Nesting(Evaluator& evaluator) : evaluator_(evaluator) {
      if (++evaluator_.depth_ > kMax) {
        --evaluator_.depth_;
        throw error("limit", "expected macros, loops and expressions nested at most {} deep", kMax);
      }
    }
    ~Nesting() { --evaluator_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    static constexpr int kMax = 1000;

   private:
    Evaluator& evaluator_;
  };

  // variables
  Activation* new_activation(Activation* outer, std::size_t n_slots);
  Value& slot(Slot s);
  Value lookup(std::string_view name);
  void enter(const Loads& loads);
  void leave(const Loads& loads);
  void assign(const Expression& target, const Value& value);
  void check_namespaces(const Expression& target);
  void export_names(const std::vector<Name*>& names);

  // expressions
  Value evaluate_name(const Name& name);
  Value evaluate_list(const ListLiteral& e);
  Value evaluate_dict(const DictLiteral& e);
  Value evaluate_binary(const Binary& e);
  Value evaluate_concat(const Concat& e);
  Value evaluate_compare(const Compare& e);
  Value evaluate_conditional(const Conditional& e);
  Value evaluate_item(const Item& e);
  Value evaluate_call(const Call& e, const Value* caller);
  Value evaluate_apply(const Apply& e, const Value* text);
  Value evaluate_filter_of_text(const Expression& filter, const Value& text);
  void add_arguments(Arguments& arguments, const CallArguments& e);

  // statements
  Flow execute(const Statements& body);
  Flow execute(const Statement& s);
  void output(const Output& s);
  Flow condition(const Condition& s);
  Flow loop(const Loop& s);
  Flow run_loop(const Loop& s, const Value& iterable, std::int64_t depth);
  Value recursive_loop(const Loop& s, Activation* outer, const Value& iterable, std::int64_t depth);
  Flow set_block(const SetBlock& s);
  Flow filter_block(const FilterBlock& s);
  Flow with(const With& s);
  Flow autoescape_block(const Autoescape& s);
  void generation(const Generation& s);
  void block(const Block& s);
  Value block_text(const Block& s);
  /// Executes `body` with a new buffer; returns what it wrote.
  template <class Body>
  Draft captured(Body&& body);
  void write(std::string_view text);
  void write(const Value& value);
  Value apply_builtin(Builtin& builtin, Arguments& arguments);

  const Tree& tree_;
  const Dict& variables_;
  std::size_t max_output_;
  Activation* activation_ = nullptr;
  Draft root_;           ///< what the template itself has written
  Draft* out_ = &root_;  ///< where output goes now
  std::size_t counted_bytes_ = 0;
  std::int64_t counted_ = 0;  ///< the characters in the first `counted_bytes_` of `root_`
  std::vector<std::pair<std::int64_t, std::int64_t>> spans_;
  std::vector<std::pair<std::string_view, Value>> exported_;  ///< variables of the top level, for blocks
  std::vector<std::pair<std::string_view, Value>> visible_;   ///< what a scoped block sees of its surroundings
  int depth_ = 0;
};

/// The variable `loop`.
class LoopObject final : public Object {
 public:
  LoopObject(Evaluator& evaluator, const Loop& loop, const Value& iterable, std::int64_t depth0);
  bool next(Value& item);

  std::string_view type_name() const override { return "LoopContext"; }
  std::string repr() const override;
  Value attribute(Renderer& renderer, std::string_view name) override;
  std::int64_t size() override { return length(); }
  bool is_callable() const override { return true; }
  Value call(Renderer& renderer, Arguments& arguments) override;

 private:
  friend Value loop_cycle(Renderer&, Arguments&);
  friend Value loop_changed(Renderer&, Arguments&);
  bool peek();
  std::int64_t length();

  Evaluator& evaluator_;
  const Loop& loop_;
  Activation* outer_;
  Value iterable_;
  Iteration iteration_;
  std::int64_t index0_ = -1, length_ = -1, depth0_;
  Value before_{}, current_{}, after_{}, last_changed_{};
  std::pmr::vector<Value>* rest_ = nullptr;  ///< what is left of an iterator whose length is known
  std::size_t rest_at_ = 0;
  bool has_after_ = false, is_exhausted_ = false;
};

/// A macro, or the body of a call block.
class MacroValue final : public Callable {
 public:
  MacroValue(Evaluator& evaluator, const MacroCode& code, Activation* outer)
      : evaluator_(evaluator), code_(code), outer_(outer) {}
  std::string_view type_name() const override { return "Macro"; }
  std::string repr() const override;
  Value attribute(Renderer& renderer, std::string_view name) override;
  Value call(Renderer& renderer, Arguments& arguments) override;

 private:
  void bind(Value* slots, Arguments& arguments);

  Evaluator& evaluator_;
  const MacroCode& code_;
  Activation* outer_;
};

/// `self.name`: renders a block again.
class BlockReference final : public Callable {
 public:
  BlockReference(Evaluator& evaluator, const Block& block) : evaluator_(evaluator), block_(block) {}
  std::string_view type_name() const override { return "BlockReference"; }
  std::string repr() const override { return "<jinja2.runtime.BlockReference object>"; }
  Value call(Renderer& renderer, Arguments& arguments) override;

 private:
  Evaluator& evaluator_;
  const Block& block_;
};

/// The variable `self`: the blocks of the template.
class SelfObject final : public Object {
 public:
  SelfObject(Evaluator& evaluator, const Tree& tree) : evaluator_(evaluator), tree_(tree) {}
  std::string_view type_name() const override { return "TemplateReference"; }
  std::string repr() const override { return "<TemplateReference None>"; }
  Value attribute(Renderer&, std::string_view) override { return {}; }
  Value item(Renderer& renderer, const Value& key) override;

 private:
  Evaluator& evaluator_;
  const Tree& tree_;
};

}  // namespace vitrine::jinja
