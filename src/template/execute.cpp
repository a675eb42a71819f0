// Statements.
#include "template/evaluate.h"
#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {

/// The items of a loop that pass its test, which is evaluated when an item is read.
class FilteredIterator final : public Iterator {
 public:
  FilteredIterator(Evaluator& evaluator, const Loop& loop, const Value& iterable)
      : evaluator_(evaluator), loop_(loop), outer_(evaluator.activation_), items_(evaluator, iterable) {}

  bool next(Value& item) override {
    Activation* const caller = evaluator_.activation_;
    if (activation_ == nullptr) {
      activation_ = evaluator_.new_activation(outer_, loop_.n_test_slots);
      evaluator_.activation_ = activation_;
      evaluator_.enter(loop_.test_loads);
    }
    bool found = false;
    while (!found) {
      evaluator_.activation_ = caller;
      if (!items_.next(item)) return false;
      evaluator_.activation_ = activation_;
      evaluator_.assign(*loop_.test_target, item);
      found = is_true(evaluator_.evaluate(*loop_.test));
    }
    evaluator_.activation_ = caller;
    return true;
  }

 private:
  Evaluator& evaluator_;
  const Loop& loop_;
  Activation* outer_;
  Activation* activation_ = nullptr;
  Iteration items_;
};

void Evaluator::write(std::string_view text) {
  *out_ += text;
  if (out_->size() > max_output_) throw error("limit", "expected at most {} bytes of output, got more", max_output_);
}

void Evaluator::write(const Value& value) {
  if (value.is_string()) {
    write(value.text());
  } else if (value.is_number() || value.is_none()) {
    out_->add_own(str(value));
  } else {
    write(str(value));
  }
}

template <class Body>
Draft Evaluator::captured(Body&& body) {
  Draft buffer(origins_);
  Draft* const outer = out_;
  out_ = &buffer;
  body();
  out_ = outer;
  return buffer;
}

Draft Evaluator::run() {
  activation_ = new_activation(nullptr, tree_.n_slots);
  if (tree_.reads_self) slot(tree_.self) = object(heap().make<SelfObject>(*this, tree_));
  enter(tree_.loads);
  execute(tree_.body);
  return std::move(root_);
}

Evaluator::Flow Evaluator::execute(const Statements& body) {
  for (const Statement* const s : body) {
    const Flow flow = execute(*s);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Evaluator::Flow Evaluator::execute(const Statement& s) {
  using Sort = Statement::Kind;
  const Nesting nesting(*this);
  step();
  switch (s.kind) {
    case Sort::output:
      output(static_cast<const Output&>(s));
      break;
    case Sort::condition:
      return condition(static_cast<const Condition&>(s));
    case Sort::loop:
      return loop(static_cast<const Loop&>(s));
    case Sort::set: {
      const auto& set = static_cast<const Set&>(s);
      check_namespaces(*set.target);
      assign(*set.target, evaluate(*set.value));
      export_names(set.exported);
      break;
    }
    case Sort::set_block:
      return set_block(static_cast<const SetBlock&>(s));
    case Sort::macro: {
      const auto& macro = static_cast<const Macro&>(s);
      slot(macro.target->slot) = callable(heap().make<MacroValue>(*this, macro.function, activation_));
      if (macro.is_exported) export_names({macro.target});
      break;
    }
    case Sort::call_block: {
      const auto& block = static_cast<const CallBlock&>(s);
      const Value caller = callable(heap().make<MacroValue>(*this, block.caller, activation_));
      write(evaluate_call(*block.call, &caller));
      break;
    }
    case Sort::filter_block:
      return filter_block(static_cast<const FilterBlock&>(s));
    case Sort::with:
      return with(static_cast<const With&>(s));
    case Sort::autoescape:
      return autoescape_block(static_cast<const Autoescape&>(s));
    case Sort::generation:
      generation(static_cast<const Generation&>(s));
      break;
    case Sort::block: {
      const auto& b = static_cast<const Block&>(s);
      if (b.is_required) throw error("runtime", "Required block {} not found", repr_text(b.name));
      const auto outer = visible_;
      for (const auto& [name, place] : b.visible) {
        if (!slot(place).is_missing()) visible_.emplace_back(name, slot(place));
      }
      block(b);
      visible_ = outer;
      break;
    }
    case Sort::refused:
      evaluate(*static_cast<const Refused&>(s).name);
      throw type_error("no loader for this environment specified");
    case Sort::leave:
      return static_cast<const Leave&>(s).is_break ? Flow::leave_loop : Flow::next_item;
  }
  return Flow::on;
}

void Evaluator::output(const Output& s) {
  for (const OutputPart& part : s.parts) {
    if (part.value == nullptr) {
      write(part.text);
      continue;
    }
    const Value value = evaluate(*part.value);
    const bool escapes = s.escape == Escape::on || (s.escape == Escape::at_run_time && autoescape());
    if (escapes && !value.is_markup()) {
      write(escaped(str(value)));
    } else {
      write(value);
    }
  }
}

Evaluator::Flow Evaluator::condition(const Condition& s) {
  for (std::size_t i = 0; i < s.tests.size(); ++i) {
    if (is_true(evaluate(*s.tests[i]))) return execute(s.bodies[i]);
  }
  return execute(s.otherwise);
}

Evaluator::Flow Evaluator::loop(const Loop& s) {
  if (!s.is_recursive) return run_loop(s, evaluate(*s.iterable), 0);
  const Value iterable = evaluate(*s.iterable);
  write(recursive_loop(s, activation_, iterable, 0).text());
  return Flow::on;
}

Value Evaluator::recursive_loop(const Loop& s, Activation* outer, const Value& iterable, std::int64_t depth) {
  const Nesting nesting(*this);
  Activation* const caller = activation_;
  activation_ = new_activation(outer, s.n_slots);
  const Draft written = captured([&] { run_loop(s, iterable, depth); });
  activation_ = caller;
  return text(written, autoescape());
}

Evaluator::Flow Evaluator::run_loop(const Loop& s, const Value& iterable, std::int64_t depth) {
  Value source = iterable;
  if (s.test != nullptr) source = iterator(heap().make<FilteredIterator>(*this, s, iterable));
  LoopObject* const state = s.has_object ? heap().make<LoopObject>(*this, s, source, depth) : nullptr;
  Iteration iteration(*this, source);
  bool is_empty = true;
  for (Value item; state != nullptr ? state->next(item) : iteration.next(item);) {
    assign(*s.target, item);
    if (state != nullptr) slot(s.object) = object(state);
    enter(s.loads);
    const Flow flow = execute(s.body);
    if (flow == Flow::leave_loop) break;
    if (flow == Flow::on) is_empty = false;  // in the reference, `continue` and `break` skip what tells that a loop ran
  }
  for (const std::uint16_t left : s.leaves) activation_->slots[left] = {};
  if (!is_empty || s.otherwise.empty()) return Flow::on;
  enter(s.otherwise_loads);
  const Flow flow = execute(s.otherwise);
  leave(s.otherwise_loads);
  return flow;
}

Evaluator::Flow Evaluator::set_block(const SetBlock& s) {
  enter(s.loads);
  Flow flow = Flow::on;
  const Draft written = captured([&] { flow = execute(s.body); });
  if (flow != Flow::on) return flow;
  Value value = text(written);
  if (s.filter != nullptr) value = evaluate_filter_of_text(*s.filter, value);
  if (autoescape()) value = text(str(value), true);
  assign(*s.target, value);
  export_names(s.exported);
  leave(s.loads);
  return Flow::on;
}

Evaluator::Flow Evaluator::filter_block(const FilterBlock& s) {
  enter(s.loads);
  Flow flow = Flow::on;
  const Draft written = captured([&] { flow = execute(s.body); });
  if (flow != Flow::on) return flow;
  const bool is_markup = s.escape == Escape::on || (s.escape == Escape::at_run_time && autoescape());
  write(evaluate_filter_of_text(*s.filter, text(written, is_markup)));
  leave(s.loads);
  return Flow::on;
}

Evaluator::Flow Evaluator::with(const With& s) {
  enter(s.loads);
  for (std::size_t i = 0; i < s.targets.size(); ++i) assign(*s.targets[i], evaluate(*s.values[i]));
  const Flow flow = execute(s.body);
  leave(s.loads);
  return flow;
}

Evaluator::Flow Evaluator::autoescape_block(const Autoescape& s) {
  const bool outer = autoescape_;
  enter(s.loads);
  autoescape_ = is_true(evaluate(*s.value));
  const Flow flow = execute(s.body);
  autoescape_ = outer;
  leave(s.loads);
  return flow;
}

void Evaluator::generation(const Generation& s) {
  Arguments none_given;
  MacroValue body(*this, s.body, activation_);
  const Value said = body.call(*this, none_given);
  counted_ += count_characters(std::string_view(root_.text()).substr(counted_bytes_));
  counted_bytes_ = root_.size();
  spans_.emplace_back(counted_, counted_ + count_characters(said.text()));
  write(said.text());
}

void Evaluator::block(const Block& s) {
  const Nesting nesting(*this);
  Activation* const caller = activation_;
  activation_ = new_activation(nullptr, s.n_slots);
  if (s.reads_self) slot(s.self) = object(heap().make<SelfObject>(*this, tree_));
  if (s.reads_super) {
    slot(s.super) = undefined_because(fmt::format("there is no parent block called {}.", repr_text(s.name)));
  }
  enter(s.loads);
  execute(s.body);
  activation_ = caller;
}

Value Evaluator::block_text(const Block& s) {
  const Draft written = captured([&] { block(s); });
  return text(written, autoescape());
}

Value BlockReference::call(Renderer&, Arguments&) { return evaluator_.block_text(block_); }

Value SelfObject::item(Renderer& renderer, const Value& key) {
  for (const Block* const block : tree_.blocks) {
    if (key.is_string() && block->name == key.text()) {
      return callable(renderer.heap().make<BlockReference>(evaluator_, *block));
    }
  }
  return {};
}

std::string MacroValue::repr() const {
  return code_.name.empty() ? "<Macro anonymous>" : fmt::format("<Macro {}>", repr_text(code_.name));
}

Value MacroValue::attribute(Renderer& renderer, std::string_view name) {
  if (name == "name") return code_.name.empty() ? none() : renderer.part(code_.name);
  if (name == "caller") return boolean(code_.reads_caller);
  if (name == "explicit_caller") return boolean(code_.explicit_caller);
  if (name == "catch_kwargs") return boolean(code_.reads_kwargs);
  if (name == "catch_varargs") return boolean(code_.reads_varargs);
  if (name != "arguments") return {};
  std::vector<Value> names;
  for (const Name* const parameter : code_.parameters) names.push_back(renderer.part(parameter->name));
  return renderer.new_tuple(names);
}

void MacroValue::bind(Value* slots, Arguments& arguments) {
  const std::size_t n_parameters = code_.parameters.size();
  const std::string name = code_.name.empty() ? "None" : repr_text(code_.name);
  for (std::size_t i = 0; i < n_parameters; ++i) {
    Value& place = slots[code_.parameters[i]->slot.index];
    place = i < arguments.positional.size() ? arguments.positional[i] : arguments.take(code_.parameters[i]->name);
  }
  if (code_.reads_caller && !code_.explicit_caller) {
    Value caller = arguments.take("caller");
    if (caller.is_missing() || caller.is_none()) caller = evaluator_.undefined_because("No caller defined");
    slots[code_.caller.index] = caller;
  }
  if (code_.reads_kwargs) {
    Dict* const rest = evaluator_.heap().make<Dict>(evaluator_.heap());
    for (const NamedArgument& argument : arguments.named) rest->set(evaluator_.text(argument.name), argument.value);
    slots[code_.kwargs.index] = dict(rest);
  } else if (!arguments.named.empty()) {
    for (const NamedArgument& argument : arguments.named) {
      if (argument.name == "caller") {
        throw type_error(
            "macro {} was invoked with two values for the special caller argument. This is most likely a bug.", name);
      }
    }
    throw type_error("macro {} takes no keyword argument {}", name, repr_text(arguments.named[0].name));
  }
  const std::size_t n_given = arguments.positional.size();
  if (code_.reads_varargs) {
    const auto rest = arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(n_parameters, n_given));
    slots[code_.varargs.index] = evaluator_.new_tuple({rest, arguments.positional.end()});
  } else if (n_given > n_parameters) {
    throw type_error("macro {} takes not more than {} argument(s)", name, n_parameters);
  }
}

Value MacroValue::call(Renderer&, Arguments& arguments) {
  const Evaluator::Nesting nesting(evaluator_);
  Activation* const activation = evaluator_.new_activation(outer_, code_.n_slots);
  bind(activation->slots, arguments);
  Activation* const caller = evaluator_.activation_;
  evaluator_.activation_ = activation;
  evaluator_.enter(code_.loads);
  const std::size_t n_without_default = code_.parameters.size() - code_.defaults.size();
  const Draft written = evaluator_.captured([&] {
    for (std::size_t i = 0; i < code_.parameters.size(); ++i) {
      const Name& parameter = *code_.parameters[i];
      Value& place = activation->slots[parameter.slot.index];
      if (!place.is_missing()) continue;
      place =
          i >= n_without_default
              ? evaluator_.evaluate(*code_.defaults[i - n_without_default])
              : evaluator_.undefined_because(fmt::format("parameter {} was not provided", repr_text(parameter.name)));
    }
    evaluator_.execute(code_.body);
  });
  evaluator_.activation_ = caller;
  return evaluator_.text(written, evaluator_.autoescape());
}

}  // namespace vitrine::jinja
