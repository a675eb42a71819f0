// Expressions and variables.
#include "template/evaluate.h"

#include <algorithm>

#include "template/builtins.h"
#include "template/format.h"

namespace vitrine::jinja {

void Scope::set(std::uint32_t number, const Value& value) {
  for (Variable& variable : variables) {
    if (variable.number == number) {
      variable.value = value;
      return;
    }
  }
  variables.push_back({number, value});
}

Value Evaluator::variable(const Name& name) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    for (const Scope::Variable& variable : scope->variables) {
      if (variable.number != name.number) continue;
      return variable.value.is_missing() ? undefined_name(name.name) : variable.value;
    }
  }
  Value& value = globals_[name.number];
  if (value.is_missing()) {
    const Value* const found = context_.find(name.name);
    value = found != nullptr ? *found : global(name.name);
    if (value.is_missing()) value = undefined_name(name.name);
  }
  return value;
}

void Evaluator::set(const Name& name, const Value& value) {
  if (scope_ != nullptr) {
    scope_->set(name.number, value);
  } else {
    globals_[name.number] = value;
  }
}

Namespace& Evaluator::namespace_of(const Name& name) {
  Namespace* const space = as_namespace(variable(name));
  if (space == nullptr) throw error("runtime", "cannot assign attribute on non-namespace object");
  return *space;
}

void Evaluator::check_namespaces(const Expression& target) {
  if (target.kind == Expression::Kind::tuple) {
    for (const Expression* const item : static_cast<const ListLiteral&>(target).items) check_namespaces(*item);
  } else if (const auto& name = static_cast<const Name&>(target); !name.attribute.empty()) {
    namespace_of(name);
  }
}

void Evaluator::assign(const Expression& target, const Value& value) {
  if (target.kind == Expression::Kind::name) {
    const auto& name = static_cast<const Name&>(target);
    return name.attribute.empty() ? set(name, value) : namespace_of(name).set(part(name.attribute), value);
  }
  const Expressions& targets = static_cast<const ListLiteral&>(target).items;
  if (!is_iterable(value)) throw type_error("cannot unpack non-iterable {} object", type_name(value));
  const std::vector<Value> parts = items(value);
  if (parts.size() > targets.size()) throw value_error("too many values to unpack (expected {})", targets.size());
  if (parts.size() < targets.size()) {
    throw value_error("not enough values to unpack (expected {}, got {})", targets.size(), parts.size());
  }
  for (std::size_t i = 0; i < targets.size(); ++i) assign(*targets[i], parts[i]);
}

Value Evaluator::evaluate(const Expression& e) {
  using Sort = Expression::Kind;
  if (e.kind == Sort::constant) return static_cast<const Literal&>(e).value;
  if (e.kind == Sort::name) return variable(static_cast<const Name&>(e));
  const Nested level = nested();
  step();
  switch (e.kind) {
    case Sort::list:
    case Sort::tuple:
      return evaluate_list(static_cast<const ListLiteral&>(e));
    case Sort::dict:
      return evaluate_dict(static_cast<const DictLiteral&>(e));
    case Sort::unary: {
      const auto& unary = static_cast<const Unary&>(e);
      return unary.op(evaluate(*unary.operand));
    }
    case Sort::binary: {
      const auto& binary = static_cast<const Binary&>(e);
      const Value left = evaluate(*binary.left);
      return binary.op(*this, left, evaluate(*binary.right));
    }
    case Sort::logic: {
      const auto& logic = static_cast<const Logic&>(e);
      const Value left = evaluate(*logic.left);
      return is_true(left) == logic.is_or ? left : evaluate(*logic.right);
    }
    case Sort::concat:
      return evaluate_concat(static_cast<const Concat&>(e));
    case Sort::compare:
      return evaluate_compare(static_cast<const Compare&>(e));
    case Sort::conditional:
      return evaluate_conditional(static_cast<const Conditional&>(e));
    case Sort::attribute:
      return evaluate_attribute(static_cast<const Attribute&>(e));
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

Value Evaluator::evaluate_concat(const Concat& e) {
  Draft joined = new_draft();
  for (const Expression* const item : e.items) append(joined, evaluate(*item));
  step(static_cast<std::int64_t>(joined.size() / 256));
  return text(joined);
}

Value Evaluator::evaluate_compare(const Compare& e) {
  Value left = evaluate(*e.first);
  for (std::size_t i = 0; i < e.operators.size(); ++i) {
    const Value right = evaluate(*e.operands[i]);
    if (!e.operators[i](*this, left, right)) return boolean(false);
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

Value Evaluator::evaluate_attribute(const Attribute& e) {
  const Value object = evaluate(*e.object);
  if (!object.is(Kind::dict) || !e.is_key) return attribute(object, e.name);
  const Value* const found = object.dict->find(e.name.text());
  return found != nullptr ? *found : undefined_member(object, e.name);
}

Value Evaluator::evaluate_item(const Item& e) {
  const Value object = evaluate(*e.object);
  if (e.index->kind != Expression::Kind::slice) return item(object, evaluate(*e.index));
  const auto& bounds = static_cast<const Slice&>(*e.index);
  const auto some = [this](const Expression* bound) { return bound == nullptr ? none() : evaluate(*bound); };
  const Value start = some(bounds.start), stop = some(bounds.stop);
  return slice(object, start, stop, some(bounds.step));
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
    method = find_method(object, member.name.text());
    if (method != nullptr && method != refused && method != unsafe_method) {
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
  if (origins_ == nullptr) return builtin(*this, arguments);
  const auto is_own = [this](const Value& v) {
    return v.is_string() ? origins_->covers(v.text()) : v.is_number() || v.is_none();
  };
  const bool is_traced = arguments.positional[0].is_string() &&
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
  const std::string_view what = e.kind == Expression::Kind::filter ? "filter" : "test";
  if (e.builtin == nullptr) throw error("runtime", "No {} named {} found.", what, repr_text(e.name));
  if (e.builtin == refused) throw unsupported(what, e.name, e.line);
  return apply_builtin(*e.builtin, arguments);
}

}  // namespace vitrine::jinja
