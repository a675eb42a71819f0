// What scopes.cpp works with: functions, scopes, and what a part of a tree reads and assigns.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "template/format.h"
#include "template/walk.h"

namespace vitrine::jinja {

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

}  // namespace vitrine::jinja
