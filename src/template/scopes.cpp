#include "template/scopes.h"

#include "template/scope.h"

namespace vitrine::jinja {
namespace {

/// The frame of a statement: jinja2's Frame.
struct Frame {
  Scope& scope;
  bool is_top = false;   ///< assignments are visible to blocks
  bool is_soft = false;  ///< inside a condition: unknown filters and tests are errors at run time
  bool in_loop = false;  ///< of the same function
};

class Resolver {
 public:
  explicit Resolver(Tree& tree) : tree_(tree) {}

  void run() {
    Unit& unit = new_unit(nullptr);
    Scope scope(nullptr, unit);
    Reads reads({"self"});
    reads.statements(tree_.body);
    tree_.reads_self = reads.has("self");
    if (tree_.reads_self) scope.declare("self");
    Mentions(scope).statements(tree_.body);
    if (tree_.reads_self) tree_.self = scope.slot("self");
    tree_.loads = scope.loads();
    statements(tree_.body, {scope, true});
    tree_.n_slots = size_of(unit);
    for (Block* const block : tree_.blocks) resolve_block(*block);
  }

 private:
  Unit& new_unit(Unit* outer) { return units_.emplace_back(Unit{outer, outer == nullptr ? 0 : outer->depth + 1}); }
  static std::uint16_t size_of(const Unit& unit) { return static_cast<std::uint16_t>(unit.slots.size()); }

  void statements(const Statements& body, const Frame& frame) {
    for (Statement* const s : body) statement(*s, frame);
  }

  void expression(Expression& e, const Frame& frame) {
    const Nested nested(*this, e.line);
    if (e.kind == Expression::Kind::name) {
      auto& name = static_cast<Name&>(e);
      name.slot = frame.scope.slot(name.name);
      return;
    }
    Frame parts = frame;
    if (e.kind == Expression::Kind::conditional) parts.is_soft = true;
    if (e.kind == Expression::Kind::filter || e.kind == Expression::Kind::test) {
      const auto& apply = static_cast<const Apply&>(e);
      if (apply.builtin == nullptr && !frame.is_soft) {
        const char* const what = e.kind == Expression::Kind::filter ? "filter" : "test";
        throw syntax_error(fmt::format("No {} named {}.", what, repr_text(apply.name)), e.line);
      }
    }
    for_each_part(e, [&](Expression& part) { expression(part, parts); });
  }
  void expressions(const Expressions& list, const Frame& frame) {
    for (Expression* const e : list) expression(*e, frame);
  }
  void some(Expression* e, const Frame& frame) {
    if (e != nullptr) expression(*e, frame);
  }

  void statement(Statement& s, const Frame& frame) {
    using Sort = Statement::Kind;
    switch (s.kind) {
      case Sort::output:
        for (const OutputPart& part : static_cast<Output&>(s).parts) some(part.value, frame);
        return;
      case Sort::condition:
        return condition(static_cast<Condition&>(s), frame);
      case Sort::loop:
        return loop(static_cast<Loop&>(s), frame);
      case Sort::set: {
        auto& set = static_cast<Set&>(s);
        expression(*set.target, frame);
        expression(*set.value, frame);
        if (frame.is_top) export_names(*set.target, set.exported);
        return;
      }
      case Sort::set_block:
        return set_block(static_cast<SetBlock&>(s), frame);
      case Sort::macro: {
        auto& macro = static_cast<Macro&>(s);
        function(macro.function, frame, s.line);
        expression(*macro.target, frame);
        macro.is_exported = frame.is_top;
        return;
      }
      case Sort::call_block:
        function(static_cast<CallBlock&>(s).caller, frame, s.line);
        return expression(*static_cast<CallBlock&>(s).call, frame);
      case Sort::generation:
        return function(static_cast<Generation&>(s).body, frame, s.line);
      case Sort::filter_block: {
        auto& block = static_cast<FilterBlock&>(s);
        Scope scope(&frame.scope, frame.scope.unit());
        Mentions mentions(scope);
        mentions.statements(block.body);
        mentions.expression(*block.filter);
        block.loads = scope.loads();
        statements(block.body, {scope, false, false, frame.in_loop});
        return expression(*block.filter, {scope});
      }
      case Sort::with:
        return with(static_cast<With&>(s), frame);
      case Sort::autoescape: {
        auto& block = static_cast<Autoescape&>(s);
        Scope scope(&frame.scope, frame.scope.unit());
        Mentions mentions(scope);
        mentions.expression(*block.value);
        mentions.statements(block.body);
        block.loads = scope.loads();
        expression(*block.value, {scope});
        return statements(block.body, {scope, false, false, frame.in_loop});
      }
      case Sort::block:
        if (static_cast<Block&>(s).is_scoped) static_cast<Block&>(s).visible = frame.scope.assigned();
        return;
      case Sort::refused:
        return expression(*static_cast<Refused&>(s).name, frame);
      case Sort::leave:
        if (!frame.in_loop) {
          const bool is_break = static_cast<Leave&>(s).is_break;
          throw syntax_error(is_break ? "'break' outside loop" : "'continue' not properly in loop", s.line);
        }
        return;
    }
  }

  void condition(Condition& c, const Frame& frame) {
    Frame soft = frame;
    soft.is_soft = true;
    expressions(c.tests, soft);
    for (const Statements& body : c.bodies) statements(body, soft);
    statements(c.otherwise, soft);
  }

  void loop(Loop& loop, const Frame& frame) {
    Unit& outer = frame.scope.unit();
    Unit& unit = loop.is_recursive ? new_unit(&outer) : outer;
    Scope body(&frame.scope, unit), otherwise(&frame.scope, unit);
    Reads reads({"loop"});
    reads.statements(loop.body);
    loop.has_object = loop.is_recursive || reads.has("loop") || reads.has_scoped_block();
    if (loop.has_object) body.declare("loop");
    Mentions mentions(body);
    mentions.parameters(*loop.target);
    mentions.statements(loop.body);
    Mentions(otherwise).statements(loop.otherwise);
    loop.loads = body.loads();
    loop.otherwise_loads = otherwise.loads();
    loop.leaves = body.slots();
    if (loop.has_object) loop.object = body.slot("loop");
    if (loop.test != nullptr) {
      Unit& test_unit = new_unit(&outer);
      Scope test(&frame.scope, test_unit);
      Mentions test_mentions(test);
      test_mentions.parameters(*loop.test_target);
      test_mentions.expression(*loop.test);
      loop.test_loads = test.loads();
      expression(*loop.test_target, {test});
      expression(*loop.test, {test});
      loop.n_test_slots = size_of(test_unit);
    }
    Reads stores({});
    stores.statement(loop);
    if (stores.stores_loop()) {
      throw syntax_error("Can't assign to special loop variable in for-loop target", loop.line);
    }
    expression(*loop.target, {body});
    expression(*loop.iterable, frame);
    statements(loop.body, {body, false, false, true});
    statements(loop.otherwise, {otherwise, false, false, frame.in_loop && !loop.is_recursive});
    if (loop.is_recursive) loop.n_slots = size_of(unit);
  }

  void set_block(SetBlock& set, const Frame& frame) {
    Scope scope(&frame.scope, frame.scope.unit());
    Mentions mentions(scope);
    mentions.statements(set.body);
    set.loads = scope.loads();
    statements(set.body, {scope, false, false, frame.in_loop});
    expression(*set.target, frame);
    if (set.filter != nullptr) {
      resolve_outer(*set.filter, scope);
      expression(*set.filter, {scope});
    }
    if (frame.is_top) export_names(*set.target, set.exported);
  }
  /// jinja2 does not look for variables in the filter of a set block: one that the body does not mention is a bug of
  /// the template there. Here it is a value of the context.
  static void resolve_outer(Expression& filter, Scope& scope) { Mentions(scope).expression(filter); }

  void with(With& with, const Frame& frame) {
    Scope scope(&frame.scope, frame.scope.unit());
    Mentions mentions(scope);
    for (Expression* const target : with.targets) mentions.parameters(*target);
    mentions.statements(with.body);
    with.loads = scope.loads();
    expressions(with.targets, {scope});
    expressions(with.values, frame);
    statements(with.body, {scope, false, false, frame.in_loop});
  }

  void function(MacroCode& f, const Frame& frame, int line) {
    Unit& unit = new_unit(&frame.scope.unit());
    Scope scope(&frame.scope, unit);
    Mentions mentions(scope);
    for (Name* const parameter : f.parameters) scope.declare(parameter->name);
    for (Expression* const value : f.defaults) mentions.expression(*value);
    mentions.statements(f.body);
    Reads reads({"caller", "kwargs", "varargs"});
    reads.statements(f.body);
    f.reads_caller = reads.has("caller");
    f.reads_kwargs = reads.has("kwargs");
    f.reads_varargs = reads.has("varargs");
    for (std::size_t i = 0; i < f.parameters.size(); ++i) {
      const std::string_view name = f.parameters[i]->name;
      if (name == "kwargs") f.reads_kwargs = false;
      if (name == "varargs") f.reads_varargs = false;
      if (name != "caller") continue;
      f.explicit_caller = true;
      if (f.reads_caller && i + f.defaults.size() < f.parameters.size()) {
        throw syntax_error(
            "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a "
            "default.",
            line);
      }
    }
    if (f.reads_caller && !f.explicit_caller) scope.declare("caller");
    if (f.reads_kwargs) scope.declare("kwargs");
    if (f.reads_varargs) scope.declare("varargs");
    if (f.reads_caller && !f.explicit_caller) f.caller = scope.slot("caller");
    if (f.reads_kwargs) f.kwargs = scope.slot("kwargs");
    if (f.reads_varargs) f.varargs = scope.slot("varargs");
    f.loads = scope.loads();
    for (Name* const parameter : f.parameters) parameter->slot = scope.slot(parameter->name);
    expressions(f.defaults, {scope});
    statements(f.body, {scope});
    f.n_slots = size_of(unit);
  }

  void resolve_block(Block& block) {
    Unit& unit = new_unit(nullptr);
    Scope scope(nullptr, unit);
    Reads reads({"self", "super"});
    reads.statements(block.body);
    block.reads_self = reads.has("self");
    block.reads_super = reads.has("super");
    if (block.reads_self) scope.declare("self");
    if (block.reads_super) scope.declare("super");
    Mentions(scope).statements(block.body);
    if (block.reads_self) block.self = scope.slot("self");
    if (block.reads_super) block.super = scope.slot("super");
    block.loads = scope.loads();
    statements(block.body, {scope});
    block.n_slots = size_of(unit);
  }

  static void export_names(Expression& target, std::vector<Name*>& names) {
    if (target.kind == Expression::Kind::name) {
      if (static_cast<Name&>(target).attribute.empty()) names.push_back(&static_cast<Name&>(target));
      return;
    }
    for_each_part(target, [&](Expression& part) { export_names(part, names); });
  }

  /// Bounds the recursion, because a long chain of operators is a deep tree.
  struct Nested {
    Nested(Resolver& r, int line) : resolver(r) {
      if (++resolver.depth_ > kMax) {
        throw error("limit", "expected expressions of at most {} operators in a row (line {})", kMax, line);
      }
    }
    ~Nested() { --resolver.depth_; }
    static constexpr int kMax = 1000;
    Resolver& resolver;
  };

  Tree& tree_;
  std::deque<Unit> units_;
  int depth_ = 0;
};

}  // namespace

void resolve_variables(Tree& tree) { Resolver(tree).run(); }

}  // namespace vitrine::jinja
