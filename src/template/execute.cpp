// Statements.
#include "template/builtins.h"
#include "template/evaluate.h"
#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {

void append(Draft& out, const Value& value) {
  if (value.is_string()) {
    out += value.text();
  } else if (value.is_number() || value.is_none()) {
    out.add_own(str(value));
  } else {
    out += str(value);
  }
}

void Evaluator::check_output() const {
  if (out_->size() > max_output_) throw error("limit", "expected at most {} bytes of output, got more", max_output_);
}

void Evaluator::write(const Value& value) {
  append(*out_, value);
  check_output();
}

Draft Evaluator::run() {
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
  const Nested level = nested();
  step();
  switch (s.kind) {
    case Sort::output:
      output(static_cast<const Output&>(s));
      break;
    case Sort::condition:
      return condition(static_cast<const Condition&>(s));
    case Sort::loop: {
      const auto& l = static_cast<const Loop&>(s);
      const Value iterable = evaluate(*l.iterable);
      if (!l.is_recursive) return loop(l, scope_, iterable, 0);
      write(recursive_loop(l, scope_, iterable, 0));
      break;
    }
    case Sort::set: {
      const auto& set = static_cast<const Set&>(s);
      check_namespaces(*set.target);
      assign(*set.target, evaluate(*set.value));
      break;
    }
    case Sort::set_block:
      return set_block(static_cast<const SetBlock&>(s));
    case Sort::macro: {
      const auto& macro = static_cast<const Macro&>(s);
      set(*macro.target, object(heap().make<MacroValue>(*this, macro.function, scope_)));
      break;
    }
    case Sort::call_block: {
      const auto& block = static_cast<const CallBlock&>(s);
      const Value caller = object(heap().make<MacroValue>(*this, block.caller, scope_));
      write(evaluate_call(*block.call, &caller));
      break;
    }
    case Sort::filter_block:
      return filter_block(static_cast<const FilterBlock&>(s));
    case Sort::with:
      return with(static_cast<const With&>(s));
    case Sort::generation:
      generation(static_cast<const Generation&>(s));
      break;
    case Sort::leave:
      return static_cast<const Leave&>(s).is_break ? Flow::leave_loop : Flow::next_item;
  }
  return Flow::on;
}

void Evaluator::output(const Output& s) {
  for (const OutputPart& part : s.parts) {
    if (part.value != nullptr) {
      append(*out_, evaluate(*part.value));
    } else {
      *out_ += part.text;
    }
    check_output();
  }
}

Evaluator::Flow Evaluator::condition(const Condition& s) {
  for (std::size_t i = 0; i < s.tests.size(); ++i) {
    if (is_true(evaluate(*s.tests[i]))) return execute(s.bodies[i]);
  }
  return execute(s.otherwise);
}

Evaluator::Flow Evaluator::loop(const Loop& s, Scope* outer, const Value& iterable, std::int64_t depth) {
  LoopObject* const state = heap().make<LoopObject>(*this, s, outer, iterable, depth);
  const bool is_empty = in_scope(outer, [&] {
    bool is_empty_so_far = true;
    for (Value item; state->next(item);) {
      scope_->variables.clear();
      scope_->set(Tree::kLoop, object(state));
      assign(*s.target, item);
      const Flow flow = execute(s.body);
      if (flow == Flow::leave_loop) break;
      // In the reference, `continue` and `break` skip what tells that a loop ran.
      if (flow == Flow::on) is_empty_so_far = false;
    }
    return is_empty_so_far;
  });
  if (!is_empty || s.otherwise.empty()) return Flow::on;
  return in_scope(outer, [&] { return execute(s.otherwise); });
}

Value Evaluator::recursive_loop(const Loop& s, Scope* outer, const Value& iterable, std::int64_t depth) {
  return text(captured([&] { loop(s, outer, iterable, depth); }));
}

Evaluator::Flow Evaluator::set_block(const SetBlock& s) {
  Value value;
  const Flow flow = in_scope(scope_, [&] {
    Flow inner = Flow::on;
    const Draft written = captured([&] { inner = execute(s.body); });
    if (inner != Flow::on) return inner;
    value = text(written);
    if (s.filter != nullptr) value = evaluate_apply(static_cast<const Apply&>(*s.filter), &value);
    return inner;
  });
  if (flow == Flow::on) assign(*s.target, value);
  return flow;
}

Evaluator::Flow Evaluator::filter_block(const FilterBlock& s) {
  return in_scope(scope_, [&] {
    Flow flow = Flow::on;
    const Draft written = captured([&] { flow = execute(s.body); });
    if (flow != Flow::on) return flow;
    const Value value = text(written);
    write(evaluate_apply(static_cast<const Apply&>(*s.filter), &value));
    return flow;
  });
}

Evaluator::Flow Evaluator::with(const With& s) {
  Scope* const outer = scope_;
  return in_scope(outer, [&] {
    Scope* const inner = scope_;
    for (std::size_t i = 0; i < s.targets.size(); ++i) {
      scope_ = outer;
      const Value value = evaluate(*s.values[i]);
      scope_ = inner;
      assign(*s.targets[i], value);
    }
    return execute(s.body);
  });
}

void Evaluator::generation(const Generation& s) {
  const Draft said = in_scope(scope_, [&] { return captured([&] { execute(s.body); }); });
  counted_ += count_characters(std::string_view(root_.text()).substr(counted_bytes_));
  counted_bytes_ = root_.size();
  spans_.emplace_back(counted_, counted_ + count_characters(said.text()));
  write(text(said));
}

}  // namespace vitrine::jinja
