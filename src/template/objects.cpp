// Objects, functions and the global names.
#include "template/objects.h"

#include <algorithm>

#include "template/evaluate.h"
#include "template/format.h"
#include "template/strftime.h"

namespace vitrine::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // of jinja2's sandbox

Value global_range(Renderer& renderer, Arguments& arguments) {
  if (!arguments.named.empty()) throw type_error("range() takes no keyword arguments");
  const std::size_t n = arguments.positional.size();
  if (n == 0) throw type_error("range expected at least 1 argument, got 0");
  if (n > 3) throw type_error("range expected at most 3 arguments, got {}", n);
  std::int64_t bounds[3] = {0, 0, 1};
  for (std::size_t i = 0; i < n; ++i) bounds[n == 1 ? 1 : i] = to_index(arguments.positional[i]);
  const auto [start, stop, step] = bounds;
  if (step == 0) throw value_error("range() arg 3 must not be zero");
  __extension__ using Wide = __int128;  // the distance of two integers of 64 bits
  const Wide distance = step > 0 ? Wide{stop} - start : Wide{start} - stop;
  const Wide by = step > 0 ? Wide{step} : -Wide{step};
  const Wide size = distance <= 0 ? 0 : (distance - 1) / by + 1;
  if (size > kMaxRange) {
    throw error("OverflowError", "IntegerRange too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
                kMaxRange);
  }
  return range(renderer.heap().make<IntegerRange>(IntegerRange{start, stop, step, static_cast<std::int64_t>(size)}));
}

/// Adds what dict(…) takes: a mapping or pairs, then named arguments.
void fill_dict(Renderer& renderer, const Arguments& arguments, Dict& dict) {
  if (arguments.positional.size() > 1) {
    throw type_error("dict expected at most 1 argument, got {}", arguments.positional.size());
  }
  for (const Value& from : arguments.positional) {
    Namespace* const space = as_namespace(from);
    if (from.is(Kind::dict) || space != nullptr) {
      const Dict& other = space != nullptr ? space->attributes() : *from.dict;
      for (const Dict::Entry& entry : other.entries) dict.set(entry.key, entry.value);
      continue;
    }
    std::size_t i = 0;
    for (const Value& item : renderer.items(from)) {
      if (!is_iterable(item)) {
        throw type_error("cannot convert dictionary update sequence element #{} to a sequence", i);
      }
      const std::vector<Value> parts = renderer.items(item);
      if (parts.size() != 2) {
        throw value_error("dictionary update sequence element #{} has length {}; 2 is required", i, parts.size());
      }
      dict.set(parts[0], parts[1]);
      ++i;
    }
  }
  for (const NamedArgument& argument : arguments.named) dict.set(renderer.text(argument.name), argument.value);
}

Value global_dict(Renderer& renderer, Arguments& arguments) {
  Dict* const made = renderer.heap().make<Dict>(renderer.heap());
  fill_dict(renderer, arguments, *made);
  return dict(made);
}

Value global_namespace(Renderer& renderer, Arguments& arguments) {
  Dict* const values = renderer.heap().make<Dict>(renderer.heap());
  fill_dict(renderer, arguments, *values);
  Namespace* const made = renderer.heap().make<Namespace>(renderer.heap());
  for (const Dict::Entry& entry : values->entries) made->set(entry.key, entry.value);
  return object(made);
}

Value global_cycler(Renderer& renderer, Arguments& arguments) {
  if (!arguments.named.empty()) throw type_error("Cycler.__init__() got an unexpected keyword argument");
  if (arguments.positional.empty()) throw error("runtime", "at least one item has to be provided");
  return object(renderer.heap().make<Cycler>(renderer.new_tuple(arguments.positional).list));
}

Value global_joiner(Renderer& renderer, Arguments& arguments) {
  const auto [separator] = arguments.bind<1>("Joiner.__init__", {"sep"}, 0);
  return object(renderer.heap().make<Joiner>(separator.is_missing() ? renderer.part(", ") : separator));
}

Value global_lipsum(Renderer&, Arguments&) {
  throw error("unsupported", "lipsum() makes random text, which is not supported");
}

Value global_raise_exception(Renderer&, Arguments& arguments) {
  const auto [message] = arguments.bind<1>("raise_exception", {"message"}, 1);
  throw TemplateError("raised", str(message));
}

Value global_strftime_now(Renderer& renderer, Arguments& arguments) {
  const auto [format] = arguments.bind<1>("strftime_now", {"format"}, 1);
  if (!format.is_string()) throw type_error("strftime() argument 1 must be str, not {}", type_name(format));
  return renderer.text(format_time(renderer.clock(), format.text()));
}

}  // namespace

Value global(std::string_view name) {
  static Function functions[] = {{"range", global_range},
                                 {"dict", global_dict},
                                 {"namespace", global_namespace},
                                 {"cycler", global_cycler},
                                 {"joiner", global_joiner},
                                 {"lipsum", global_lipsum},
                                 {"raise_exception", global_raise_exception},
                                 {"strftime_now", global_strftime_now}};
  for (Function& function : functions) {
    if (function.name() == name) return callable(&function);
  }
  return {};
}

std::string Function::repr() const {
  if (self_.is_missing()) return fmt::format("<function {}>", name_);
  return fmt::format("<built-in method {} of {} object>", name_, jinja::type_name(self_));
}

Value Function::call(Renderer& renderer, Arguments& arguments) {
  if (!self_.is_missing()) arguments.positional.insert(arguments.positional.begin(), self_);
  return run_(renderer, arguments);
}

bool Function::equals(const Callable& other) const {
  const auto* const function = dynamic_cast<const Function*>(&other);
  return function != nullptr && run_ == function->run_ && name_ == function->name_ && same(self_, function->self_);
}

Value Arguments::take(std::string_view name) {
  for (auto argument = named.begin(); argument != named.end(); ++argument) {
    if (argument->name != name) continue;
    const Value value = argument->value;
    named.erase(argument);
    return value;
  }
  return {};
}

void Arguments::bind_to(const char* function, const char* const* names, std::size_t n, std::size_t n_required,
                        Value* values) const {
  if (positional.size() > n) {
    throw type_error("{}() takes {}{} positional argument{} but {} were given", function,
                     n_required < n ? fmt::format("from {} to ", n_required) : "", n, n == 1 ? "" : "s",
                     positional.size());
  }
  std::copy(positional.begin(), positional.end(), values);
  for (const NamedArgument& argument : named) {
    const auto* const found = std::find_if(names, names + n, [&](const char* name) { return argument.name == name; });
    if (found == names + n) {
      throw type_error("{}() got an unexpected keyword argument '{}'", function, argument.name);
    }
    Value& value = values[found - names];
    if (!value.is_missing()) throw type_error("{}() got multiple values for argument '{}'", function, argument.name);
    value = argument.value;
  }
  for (std::size_t i = 0; i < n_required; ++i) {
    if (values[i].is_missing())
      throw type_error("{}() missing 1 required positional argument: '{}'", function, names[i]);
  }
}

Value Object::call(Renderer&, Arguments&) { throw type_error("'{}' object is not callable", type_name()); }

std::string Namespace::repr() const {
  std::string out = "<Namespace {";
  for (std::size_t i = 0; i < attributes_.entries.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, attributes_.entries[i].key);
    out += ": ";
    append_repr(out, attributes_.entries[i].value);
  }
  return out + "}>";
}

Value Namespace::attribute(Renderer&, std::string_view name) {
  const Value* const found = attributes_.find(name);
  return found == nullptr ? Value{} : *found;
}

void Namespace::set(const Value& name, const Value& value) {
  if (name.is_string() && !name.text().empty() && name.text()[0] == '_') {
    throw error("security",
                "Chat templates cannot store underscore-prefixed attributes on a namespace, but got {}. Please rename "
                "the attribute.",
                jinja::repr(name));
  }
  attributes_.set(name, value);
}

Namespace* as_namespace(const Value& value) {
  return value.is(Kind::object) ? dynamic_cast<Namespace*>(value.object) : nullptr;
}

Value cycler_next(Renderer&, Arguments& arguments) {
  auto& cycler = static_cast<Cycler&>(*arguments.positional[0].object);
  const Value value = cycler.items_->items[cycler.position_];
  cycler.position_ = (cycler.position_ + 1) % cycler.items_->items.size();
  return value;
}
Value cycler_reset(Renderer&, Arguments& arguments) {
  static_cast<Cycler&>(*arguments.positional[0].object).position_ = 0;
  return none();
}

Value Cycler::attribute(Renderer& renderer, std::string_view name) {
  if (name == "current") return items_->items[position_];
  if (name == "items") return tuple(items_);
  if (name == "pos") return integer(static_cast<std::int64_t>(position_));
  Heap& heap = renderer.heap();
  if (name == "next") return callable(heap.make<Function>("next", cycler_next, object(this)));
  if (name == "reset") return callable(heap.make<Function>("reset", cycler_reset, object(this)));
  return {};
}

Value Joiner::attribute(Renderer&, std::string_view name) {
  if (name == "sep") return separator_;
  return name == "used" ? boolean(is_used_) : Value{};
}

Value Joiner::call(Renderer& renderer, Arguments& arguments) {
  if (!arguments.positional.empty() || !arguments.named.empty()) {
    throw type_error("Joiner.__call__() takes 1 positional argument but {} were given",
                     arguments.positional.size() + 1);
  }
  if (is_used_) return separator_;
  is_used_ = true;
  return renderer.part("");
}

LoopObject::LoopObject(Evaluator& evaluator, const Loop& loop, const Value& iterable, std::int64_t depth0)
    : evaluator_(evaluator),
      loop_(loop),
      outer_(evaluator.activation_->outer),
      iterable_(iterable),
      iteration_(evaluator, iterable),
      depth0_(depth0) {}

bool LoopObject::peek() {
  if (has_after_ || is_exhausted_) return has_after_;
  if (rest_ != nullptr) {
    has_after_ = rest_at_ < rest_->size();
    if (has_after_) after_ = (*rest_)[rest_at_++];
  } else {
    has_after_ = iteration_.next(after_);
  }
  is_exhausted_ = !has_after_;
  return has_after_;
}

bool LoopObject::next(Value& item) {
  if (!peek()) return false;
  has_after_ = false;
  item = after_;
  ++index0_;
  before_ = current_;
  current_ = item;
  return true;
}

std::int64_t LoopObject::length() {
  if (length_ >= 0) return length_;
  length_ = evaluator_.length(iterable_);
  if (length_ >= 0) return length_;
  List* const kept = evaluator_.heap().make<List>(evaluator_.heap());
  Value item;
  while (!is_exhausted_ && iteration_.next(item)) kept->items.push_back(item);
  length_ = static_cast<std::int64_t>(kept->items.size()) + index0_ + 1 + has_after_;
  is_exhausted_ = false;
  rest_ = &kept->items;
  return length_;
}

std::string LoopObject::repr() const {
  return fmt::format("<LoopContext {}/{}>", index0_ + 1, const_cast<LoopObject*>(this)->length());
}

Value loop_cycle(Renderer&, Arguments& arguments) {
  auto& loop = static_cast<LoopObject&>(*arguments.positional[0].object);
  const auto n = static_cast<std::int64_t>(arguments.positional.size()) - 1;
  if (n == 0) throw type_error("no items for cycling given");
  return arguments.positional[static_cast<std::size_t>(1 + loop.index0_ % n)];
}

Value loop_changed(Renderer& renderer, Arguments& arguments) {
  auto& loop = static_cast<LoopObject&>(*arguments.positional[0].object);
  const Value value = renderer.new_tuple({arguments.positional.begin() + 1, arguments.positional.end()});
  if (!loop.last_changed_.is_missing() && equal(loop.last_changed_, value)) return boolean(false);
  loop.last_changed_ = value;
  return boolean(true);
}

Value LoopObject::attribute(Renderer& renderer, std::string_view name) {
  if (name == "index") return integer(index0_ + 1);
  if (name == "index0") return integer(index0_);
  if (name == "first") return boolean(index0_ == 0);
  if (name == "last") return boolean(!peek());
  if (name == "length") return integer(length());
  if (name == "revindex") return integer(length() - index0_);
  if (name == "revindex0") return integer(length() - index0_ - 1);
  if (name == "depth") return integer(depth0_ + 1);
  if (name == "depth0") return integer(depth0_);
  if (name == "previtem") return index0_ == 0 ? renderer.undefined_because("there is no previous item") : before_;
  if (name == "nextitem") return peek() ? after_ : renderer.undefined_because("there is no next item");
  Heap& heap = renderer.heap();
  if (name == "cycle") return callable(heap.make<Function>("cycle", loop_cycle, object(this)));
  if (name == "changed") return callable(heap.make<Function>("changed", loop_changed, object(this)));
  return {};
}

Value LoopObject::call(Renderer&, Arguments& arguments) {
  const auto [iterable] = arguments.bind<1>("LoopContext.__call__", {"iterable"}, 1);
  if (!loop_.is_recursive) {
    throw type_error("The loop must have the 'recursive' marker to be called recursively.");
  }
  return evaluator_.recursive_loop(loop_, outer_, iterable, depth0_ + 1);
}

}  // namespace vitrine::jinja
