// Expressions and variables.
#include "template/evaluate.h"

#include <algorithm>

#include "template/format.h"
#include "template/walk.h"

namespace vitrine::jinja {

Activation* Evaluator::new_activation(Activation* outer, std::size_t n_slots) {
  Activation* const made = heap().make<Activation>();
  made->outer = outer;
  made->slots = static_cast<Value*>(heap().resource()->allocate(n_slots * sizeof(Value), alignof(Value)));
  std::uninitialized_fill_n(made->slots, n_slots, Value{});
  return made;
}

Value& Evaluator::slot(Slot s) {
  Activation* activation = activation_;
  for (int i = 0; i < s.up; ++i) activation = activation->outer;
  return activation->slots[s.index];
}

Value Evaluator::lookup(std::string_view name) {
  const auto newest = [name](const auto& list) {
    for (auto entry = list.rbegin(); entry != list.rend(); ++entry) {
      if (entry->first == name) return entry->second;
    }
    return Value{};
  };
  if (!visible_.empty()) {
    const Value value = newest(visible_);
    if (!value.is_missing()) return value;
  }
  if (!exported_.empty()) {
    const Value value = newest(exported_);
    if (!value.is_missing()) return value;
  }
  const Value* const found = variables_.find(name);
  return found != nullptr ? *found : global(name);
}

void Evaluator::enter(const Loads& loads) {
  for (const Load& load : loads) {
    Value& place = activation_->slots[load.slot];
    switch (load.from) {
      case Load::From::missing:
        place = {};
        break;
      case Load::From::context:
        place = lookup(load.name);
        break;
      case Load::From::outer:
        place = slot(load.outer);
        break;
    }
  }
}

void Evaluator::leave(const Loads& loads) {
  for (const Load& load : loads) activation_->slots[load.slot] = {};
}

void Evaluator::check_namespaces(const Expression& target) {
  if (target.kind == Expression::Kind::tuple) {
    for (const Expression* const item : static_cast<const ListLiteral&>(target).items) check_namespaces(*item);
    return;
  }
  const auto& name = static_cast<const Name&>(target);
  if (!name.attribute.empty() && as_namespace(slot(name.slot)) == nullptr) {
    throw error("runtime", "cannot assign attribute on non-namespace object");
  }
}

void Evaluator::assign(const Expression& target, const Value& value) {
  if (target.kind == Expression::Kind::name) {
    const auto& name = static_cast<const Name&>(target);
    if (name.attribute.empty()) {
      slot(name.slot) = value;
      return;
    }
    Namespace* const space = as_namespace(slot(name.slot));
    if (space == nullptr) throw error("runtime", "cannot assign attribute on non-namespace object");
    return space->set(part(name.attribute), value);
  }
  const Expressions& targets = static_cast<const ListLiteral&>(target).items;
  if (!is_iterable(value)) throw type_error("cannot unpack non-iterable {} object", type_name(value));
  std::vector<Value> items;
  Iteration iteration(*this, value);
  for (Value item; items.size() <= targets.size() && iteration.next(item);) items.push_back(item);
  if (items.size() > targets.size()) throw value_error("too many values to unpack (expected {})", targets.size());
  if (items.size() < targets.size()) {
    throw value_error("not enough values to unpack (expected {}, got {})", targets.size(), items.size());
  }
  for (std::size_t i = 0; i < targets.size(); ++i) assign(*targets[i], items[i]);
}

void Evaluator::export_names(const std::vector<Name*>& names) {
  if (tree_.blocks.empty()) return;
  for (const Name* const name : names) exported_.emplace_back(name->name, slot(name->slot));
}

Value Evaluator::evaluate(const Expression& e) {
  using Sort = Expression::Kind;
  if (e.kind == Sort::constant) return static_cast<const Literal&>(e).value;
  if (e.kind == Sort::name) return evaluate_name(static_cast<const Name&>(e));
  const Nesting nesting(*this);
  step();
  switch (e.kind) {
    case Sort::list:
    case Sort::tuple:
      return evaluate_list(static_cast<const ListLiteral&>(e));
    case Sort::dict:
      return evaluate_dict(static_cast<const DictLiteral&>(e));
    case Sort::unary: {
      const auto& unary = static_cast<const Unary&>(e);
      const Value operand = evaluate(*unary.operand);
      if (unary.op == Operator::logical_not) return boolean(!is_true(operand));
      return unary.op == Operator::negative ? negative(*this, operand) : positive(*this, operand);
    }
    case Sort::binary:
      return evaluate_binary(static_cast<const Binary&>(e));
    case Sort::logic: {
      const auto& logic = static_cast<const Binary&>(e);
      const Value left = evaluate(*logic.left);
      return is_true(left) == (logic.op == Operator::logical_or) ? left : evaluate(*logic.right);
    }
    case Sort::concat:
      return evaluate_concat(static_cast<const Concat&>(e));
    case Sort::compare:
      return evaluate_compare(static_cast<const Compare&>(e));
    case Sort::conditional:
      return evaluate_conditional(static_cast<const Conditional&>(e));
    case Sort::attribute: {
      const auto& attribute_of = static_cast<const Attribute&>(e);
      return attribute(evaluate(*attribute_of.object), attribute_of.name);
    }
    case Sort::item:
      return evaluate_item(static_cast<const Item&>(e));
    case Sort::call:
      return evaluate_call(static_cast<const Call&>(e), nullptr);
    case Sort::filter:
    case Sort::test:
      return evaluate_apply(static_cast<const Apply&>(e), nullptr);
    case Sort::slice:
    case Sort::constant:
    case Sort::name:
      break;
  }
  throw InternalError("template", "an expression of kind {} cannot be evaluated", static_cast<int>(e.kind));
}

Value Evaluator::evaluate_name(const Name& name) {
  const Value& value = slot(name.slot);
  return value.is_missing() ? undefined_name(name.name) : value;
}

Value Evaluator::evaluate_list(const ListLiteral& e) {
  List* const made = heap().make<List>(heap());
  made->items.reserve(e.items.size());
  for (const Expression* const item : e.items) made->items.push_back(evaluate(*item));
  return e.kind == Expression::Kind::list ? list(made) : tuple(made);
}

Value Evaluator::evaluate_dict(const DictLiteral& e) {
  Dict* const made = heap().make<Dict>(heap());
  for (std::size_t i = 0; i < e.keys.size(); ++i) {
    const Value key = evaluate(*e.keys[i]);
    made->set(key, evaluate(*e.values[i]));
  }
  return dict(made);
}

Value Evaluator::evaluate_binary(const Binary& e) {
  const Value a = evaluate(*e.left);
  const Value b = evaluate(*e.right);
  switch (e.op) {
    case Operator::add:
      return add(*this, a, b);
    case Operator::subtract:
      return subtract(*this, a, b);
    case Operator::multiply:
      return multiply(*this, a, b);
    case Operator::divide:
      return divide(*this, a, b);
    case Operator::floor_divide:
      return floor_divide(*this, a, b);
    case Operator::modulo:
      return modulo(*this, a, b);
    default:
      return power(*this, a, b);
  }
}

Value Evaluator::evaluate_concat(const Concat& e) {
  std::vector<Value> items;
  bool has_markup = false;
  for (const Expression* const item : e.items) {
    items.push_back(evaluate(*item));
    has_markup = has_markup || items.back().is_markup();
  }
  const bool escapes = e.escape == Escape::on && has_markup;
  Draft joined = new_draft();
  for (const Value& item : items) {
    if (escapes && !item.is_markup()) {
      joined += escaped(str(item));
    } else if (item.is_string()) {
      joined += item.text();
    } else if (item.is_number() || item.is_none()) {
      joined.add_own(str(item));
    } else {
      joined += str(item);
    }
  }
  step(static_cast<std::int64_t>(joined.size() / 256));
  return text(joined, escapes);
}

Value Evaluator::evaluate_compare(const Compare& e) {
  Value left = evaluate(*e.first);
  for (std::size_t i = 0; i < e.operators.size(); ++i) {
    const Value right = evaluate(*e.operands[i]);
    bool holds = false;
    switch (e.operators[i]) {
      case Operator::equal:
        holds = equal(left, right);
        break;
      case Operator::not_equal:
        holds = !equal(left, right);
        break;
      case Operator::less:
        holds = less(left, right);
        break;
      case Operator::less_equal:
        holds = less_or_equal(left, right);
        break;
      case Operator::greater:
        holds = greater(left, right);
        break;
      case Operator::greater_equal:
        holds = greater_or_equal(left, right);
        break;
      case Operator::in:
        holds = contains(right, left);
        break;
      default:
        holds = !contains(right, left);
        break;
    }
    if (!holds) return boolean(false);
    left = right;
  }
  return boolean(true);
}

Value Evaluator::evaluate_conditional(const Conditional& e) {
  if (is_true(evaluate(*e.test))) return evaluate(*e.then);
  if (e.otherwise != nullptr) return evaluate(*e.otherwise);
  return undefined_because(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined.", e.line));
}

/// Whether jinja2 computes an expression when it compiles.
static bool is_constant(const Expression& e) {
  using Sort = Expression::Kind;
  switch (e.kind) {
    case Sort::name:
    case Sort::call:
    case Sort::attribute:
    case Sort::filter:
    case Sort::test:
      return false;
    default: {
      bool all = true;
      for_each_part(const_cast<Expression&>(e), [&](Expression& part) { all = all && is_constant(part); });
      return all;
    }
  }
}

Value Evaluator::evaluate_item(const Item& e) {
  const Value object = evaluate(*e.object);
  if (e.index->kind != Expression::Kind::slice) return item(object, evaluate(*e.index));
  const auto& bounds = static_cast<const Slice&>(*e.index);
  const auto some = [this](const Expression* bound) { return bound == nullptr ? none() : evaluate(*bound); };
  const Value start = some(bounds.start), stop = some(bounds.stop), step_by = some(bounds.step);
  try {
    return slice(object, start, stop, step_by);
  } catch (const TemplateError& refused) {
    // The reference computes slices of constants when it compiles, by another function, which makes them undefined.
    if (refused.kind() != "TypeError" || !is_constant(e)) throw;
    return undefined_member(object, none());
  }
}

void Evaluator::add_arguments(Arguments& arguments, const CallArguments& e) {
  for (const Expression* const argument : e.positional) arguments.positional.push_back(evaluate(*argument));
  for (const Keyword& keyword : e.keywords) arguments.named.push_back({keyword.name, evaluate(*keyword.value)});
  if (e.rest != nullptr) {
    const Value rest = evaluate(*e.rest);
    if (!is_iterable(rest)) throw type_error("argument after * must be an iterable, not {}", type_name(rest));
    for (const Value& value : items(rest)) arguments.positional.push_back(value);
  }
  if (e.keyword_rest == nullptr) return;
  const Value rest = evaluate(*e.keyword_rest);
  if (rest.is_undefined()) fail_undefined(rest);
  if (!rest.is(Kind::dict)) throw type_error("argument after ** must be a mapping, not {}", type_name(rest));
  for (const Dict::Entry& entry : rest.dict->entries) {
    if (!entry.key.is_string()) throw type_error("keywords must be strings");
    for (const NamedArgument& other : arguments.named) {
      if (other.name == entry.key.text()) {
        throw type_error("got multiple values for keyword argument {}", repr(entry.key));
      }
    }
    arguments.named.push_back({entry.key.text(), entry.value});
  }
}

Value Evaluator::evaluate_call(const Call& e, const Value* caller) {
  Arguments arguments;
  Value function;
  Builtin* method = nullptr;
  if (e.function->kind == Expression::Kind::attribute) {  // a method is called without making a value of it
    const auto& member = static_cast<const Attribute&>(*e.function);
    const Value object = evaluate(*member.object);
    bool is_unsafe = false;
    method = find_method(object, member.name.text(), is_unsafe);
    if (method != nullptr && !is_unsafe) {
      arguments.positional.push_back(object);
    } else {
      method = nullptr;
      function = attribute(object, member.name);
    }
  } else {
    function = evaluate(*e.function);
  }
  add_arguments(arguments, e.arguments);
  if (caller != nullptr) arguments.named.push_back({"caller", *caller});
  if (method == nullptr) return call(function, arguments);
  step();
  return apply_builtin(*method, arguments);
}

/// Applies a filter, a test or a method. What it makes of nothing but text of the template is the template's, too.
Value Evaluator::apply_builtin(Builtin& builtin, Arguments& arguments) {
  const auto is_own = [this](const Value& v) {
    return v.is_string() ? origins_->covers(v.text()) : v.is_number() || v.is_none();
  };
  const bool is_traced = origins_ != nullptr && arguments.positional[0].is_string() &&
                         std::all_of(arguments.positional.begin(), arguments.positional.end(), is_own) &&
                         std::all_of(arguments.named.begin(), arguments.named.end(),
                                     [&](const NamedArgument& argument) { return is_own(argument.value); });
  const Value result = builtin(*this, arguments);
  if (is_traced && result.is_string() && !origins_->covers(result.text())) origins_->add(result.text());
  return result;
}

Value Evaluator::evaluate_apply(const Apply& e, const Value* text) {
  Arguments arguments;
  if (e.operand == nullptr) {
    arguments.positional.push_back(*text);
  } else if (text != nullptr && e.operand->kind == Expression::Kind::filter) {
    arguments.positional.push_back(evaluate_apply(static_cast<const Apply&>(*e.operand), text));
  } else {
    arguments.positional.push_back(evaluate(*e.operand));
  }
  add_arguments(arguments, e.arguments);
  if (e.builtin == nullptr) {
    throw error("runtime", "No {} named {} found.", e.kind == Expression::Kind::filter ? "filter" : "test",
                repr_text(e.name));
  }
  return apply_builtin(*e.builtin, arguments);
}

Value Evaluator::evaluate_filter_of_text(const Expression& filter, const Value& text) {
  return evaluate_apply(static_cast<const Apply&>(filter), &text);
}

}  // namespace vitrine::jinja
