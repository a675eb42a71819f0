#include "template/scopes.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "template/format.h"
#include "template/walk.h"

namespace vitrine::jinja {
namespace {

/// A function of the compiled template, whose locals are slots.
struct Unit {
  Unit* outer = nullptr;
  int depth = 0;
  std::map<std::pair<int, std::string_view>, std::uint16_t> slots{};  // by level and name
};

struct Place {
  Unit* unit = nullptr;
  std::uint16_t slot = 0;
  bool operator==(const Place& other) const { return unit == other.unit && slot == other.slot; }
};

/// The variables of one scope: jinja2's Symbols.
class Scope {
 public:
  Scope(Scope* outer, Unit& unit) : outer_(outer), unit_(&unit), level_(outer == nullptr ? 0 : outer->level_ + 1) {}

  std::optional<Place> find(std::string_view name) const {
    const auto found = places_.find(name);
    if (found != places_.end()) return found->second;
    return outer_ == nullptr ? std::nullopt : outer_->find(name);
  }
  Place declare(std::string_view name) {
    stores_.insert(name);
    return define(name, {});
  }
  void load(std::string_view name) {
    if (!find(name)) define(name, Beginning{Load::From::context, {}, name});
  }
  void store(std::string_view name) {
    stores_.insert(name);
    if (places_.count(name) != 0) return;
    const auto outer = outer_ == nullptr ? std::nullopt : outer_->find(name);
    define(name, outer ? Beginning{Load::From::outer, *outer, name} : Beginning{Load::From::missing, {}, name});
  }
  /// Joins what the branches of a condition did to copies of this scope.
  void join(const std::vector<Scope>& branches) {
    std::set<std::string_view> stored;
    for (const Scope& branch : branches) stored.insert(branch.stores_.begin(), branch.stores_.end());
    for (const std::string_view name : stores_) stored.erase(name);
    for (const Scope& branch : branches) {
      for (const auto& [name, place] : branch.places_) places_[name] = place;
      for (const auto& [place, beginning] : branch.beginnings_) begin(place, beginning);
      stores_.insert(branch.stores_.begin(), branch.stores_.end());
    }
    for (const std::string_view name : stored) {
      const auto outer = outer_ == nullptr ? std::nullopt : outer_->find(name);
      begin(*find(name), outer ? Beginning{Load::From::outer, *outer, name} : Beginning{Load::From::context, {}, name});
    }
  }

  Loads loads() const {
    Loads result;
    for (const auto& [place, beginning] : beginnings_) {
      if (beginning) result.push_back({beginning->from, place.slot, slot_from(beginning->outer), beginning->name});
    }
    return result;
  }
  /// The slots of all variables that begin here, parameters included.
  std::vector<std::uint16_t> slots() const {
    std::vector<std::uint16_t> result;
    for (const auto& [place, beginning] : beginnings_) result.push_back(place.slot);
    return result;
  }
  Slot slot(std::string_view name) const {
    const auto place = find(name);
    if (!place) throw InternalError("template", "variable {} has no place", name);
    return slot_from(*place);
  }
  /// The variables that were assigned here or further out.
  std::vector<std::pair<std::string_view, Slot>> assigned() const {
    std::map<std::string_view, Slot> result;
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
      for (const std::string_view name : scope->stores_) result.emplace(name, slot(name));
    }
    return {result.begin(), result.end()};
  }
  Unit& unit() const { return *unit_; }

 private:
  struct Beginning {
    Load::From from;
    Place outer;
    std::string_view name;
  };
  Place define(std::string_view name, std::optional<Beginning> beginning) {
    auto& slots = unit_->slots;
    const auto [entry, is_new] = slots.emplace(std::pair(level_, name), static_cast<std::uint16_t>(slots.size()));
    if (slots.size() >= 0xFFFF) throw error("limit", "expected at most {} variables in a function", 0xFFFF);
    const Place place{unit_, entry->second};
    places_[name] = place;
    begin(place, beginning);
    return place;
  }
  void begin(Place place, std::optional<Beginning> beginning) {
    const auto known =
        std::find_if(beginnings_.begin(), beginnings_.end(), [&](const auto& entry) { return entry.first == place; });
    if (known != beginnings_.end()) {
      known->second = beginning;
    } else {
      beginnings_.emplace_back(place, beginning);
    }
  }
  Slot slot_from(Place place) const {
    if (place.unit == nullptr) return {};
    return {static_cast<std::uint16_t>(unit_->depth - place.unit->depth), place.slot};
  }

  Scope* outer_;
  Unit* unit_;
  int level_;
  std::map<std::string_view, Place> places_;
  std::vector<std::pair<Place, std::optional<Beginning>>> beginnings_;  // without a beginning: a parameter
  std::set<std::string_view> stores_;
};

/// Finds the variables that statements mention, without those of the scopes inside: jinja2's FrameSymbolVisitor.
class Mentions : public Walker<Mentions> {
 public:
  explicit Mentions(Scope& scope) : scope_(&scope) {}
  void load(const Name& name) { scope_->load(name.name); }
  void store(const Name& name) {
    if (name.attribute.empty()) {
      scope_->store(name.name);
    } else {
      scope_->load(name.name);
    }
  }
  void parameters(Expression& e) {
    if (e.kind == Expression::Kind::name) {
      scope_->declare(static_cast<Name&>(e).name);
    } else {
      for_each_part(e, [this](Expression& part) { parameters(part); });
    }
  }
  void statement(Statement& s) {
    using Sort = Statement::Kind;
    switch (s.kind) {
      case Sort::condition:
        return condition(static_cast<Condition&>(s));
      case Sort::loop:
        return expression(*static_cast<Loop&>(s).iterable);
      case Sort::set:
        expression(*static_cast<Set&>(s).value);
        return target(*static_cast<Set&>(s).target);
      case Sort::set_block:
        return target(*static_cast<SetBlock&>(s).target);
      case Sort::macro:
        return scope_->store(static_cast<Macro&>(s).target->name);
      case Sort::call_block:
        return expression(*static_cast<CallBlock&>(s).call);
      case Sort::filter_block:
        return expression(*static_cast<FilterBlock&>(s).filter);
      case Sort::with:
        for (Expression* const value : static_cast<With&>(s).values) expression(*value);
        return;
      case Sort::autoescape:
      case Sort::generation:
        return;
      case Sort::refused:
        expression(*static_cast<Refused&>(s).name);
        for (const std::string_view name : static_cast<Refused&>(s).targets) scope_->store(name);
        return;
      default:
        return Walker::statement(s);
    }
  }

 private:
  void condition(Condition& c) {
    Scope& whole = *scope_;
    expression(*c.tests[0]);
    std::vector<Scope> branches;
    const auto branch = [&](auto visit) {
      Scope copy = whole;
      scope_ = &copy;
      visit();
      branches.push_back(std::move(copy));
      scope_ = &whole;
    };
    branch([&] { statements(c.bodies[0]); });
    branch([&] {  // each elif is a condition of its own
      for (std::size_t i = 1; i < c.tests.size(); ++i) {
        expression(*c.tests[i]);
        Scope& elif = *scope_;
        std::vector<Scope> body(1, elif);
        scope_ = &body[0];
        statements(c.bodies[i]);
        scope_ = &elif;
        elif.join(body);
      }
    });
    branch([&] { statements(c.otherwise); });
    whole.join(branches);
  }

  Scope* scope_;
};

/// Which of some names a body reads that it did not assign before, and other questions about a whole body.
class Reads : public Walker<Reads> {
 public:
  explicit Reads(std::set<std::string_view> names) : names_(std::move(names)) {}
  void load(const Name& name) {
    if (names_.count(name.name) != 0) read_.insert(name.name);
  }
  void store(const Name& name) {
    if (!name.attribute.empty()) return;
    if (read_.size() < names_.size()) names_.erase(name.name);
    stores_loop_ = stores_loop_ || name.name == "loop";
  }
  void statement(Statement& s) {
    has_scoped_block_ = has_scoped_block_ || (s.kind == Statement::Kind::block && static_cast<Block&>(s).is_scoped);
    Walker::statement(s);
  }
  bool has(std::string_view name) const { return read_.count(name) != 0; }
  bool stores_loop() const { return stores_loop_; }
  bool has_scoped_block() const { return has_scoped_block_; }

 private:
  std::set<std::string_view> names_, read_;
  bool stores_loop_ = false, has_scoped_block_ = false;
};

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
