// Objects, functions and the global names.
#include "template/objects.h"

#include <algorithm>
#include <utility>

#include "template/builtins.h"
#include "template/format.h"

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
  const Wide size = distance <= 0 ? 0 : (distance - 1) / (step > 0 ? Wide{step} : -Wide{step}) + 1;
  if (size > kMaxRange) {
    throw error("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  }
  std::string repr = fmt::format("range({}, {}", start, stop);
  repr += step == 1 ? ")" : fmt::format(", {})", step);
  List* const made = renderer.heap().make<List>(renderer.heap(), renderer.heap().copy(repr));
  made->items.reserve(static_cast<std::size_t>(size));
  renderer.step(static_cast<std::int64_t>(size));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(size); ++i) made->items.push_back(integer(start + i * step));
  return make_value(Kind::range, &Value::list, made);
}

/// What dict(…) takes: a mapping or pairs, then named arguments.
Dict* new_dict(Renderer& renderer, const Arguments& arguments) {
  Dict* const made = renderer.heap().make<Dict>(renderer.heap());
  if (arguments.positional.size() > 1) {
    throw type_error("dict expected at most 1 argument, got {}", arguments.positional.size());
  }
  for (const Value& from : arguments.positional) {
    const Namespace* const space = as_namespace(from);
    if (from.is(Kind::dict) || space != nullptr) {
      const Dict& other = space != nullptr ? space->attributes() : *from.dict;
      for (const Dict::Entry& entry : other.entries) made->set(entry.key, entry.value);
      continue;
    }
    for (const Value& item : renderer.items(from)) {
      if (!is_iterable(item)) {
        throw type_error("cannot convert dictionary update sequence element #{} to a sequence", made->entries.size());
      }
      const std::vector<Value> parts = renderer.items(item);
      if (parts.size() != 2) {
        throw value_error("dictionary update sequence element #{} has length {}; 2 is required", made->entries.size(),
                          parts.size());
      }
      made->set(parts[0], parts[1]);
    }
  }
  for (const NamedArgument& argument : arguments.named) made->set(renderer.text(argument.name), argument.value);
  return made;
}

Value global_dict(Renderer& renderer, Arguments& arguments) { return dict(new_dict(renderer, arguments)); }

Value global_namespace(Renderer& renderer, Arguments& arguments) {
  Dict* const values = new_dict(renderer, arguments);
  Namespace* const made = renderer.heap().make<Namespace>(renderer.heap());
  for (const Dict::Entry& entry : values->entries) made->set(entry.key, entry.value);
  return object(made);
}

/// `cycler(…)`: its items in turn.
class Cycler final : public Object {
 public:
  explicit Cycler(List* items) : items_(items) {}
  std::string_view type_name() const override { return "Cycler"; }
  std::string repr() const override { return "<jinja2.utils.Cycler object>"; }
  bool is_callable() const override { return false; }
  Value attribute(Renderer& renderer, std::string_view name) override {
    if (name == "current") return items_->items[position_];
    if (name == "items") return tuple(items_);
    if (name == "pos") return integer(static_cast<std::int64_t>(position_));
    if (name == "next") return object(renderer.heap().make<Function>("next", next, object(this)));
    if (name == "reset") return object(renderer.heap().make<Function>("reset", reset, object(this)));
    return {};
  }

 private:
  static Cycler& self(Arguments& arguments) { return static_cast<Cycler&>(*arguments.positional[0].object); }
  static Value next(Renderer&, Arguments& arguments) {
    Cycler& cycler = self(arguments);
    const Value value = cycler.items_->items[cycler.position_];
    cycler.position_ = (cycler.position_ + 1) % cycler.items_->items.size();
    return value;
  }
  static Value reset(Renderer&, Arguments& arguments) {
    self(arguments).position_ = 0;
    return none();
  }

  List* items_;
  std::size_t position_ = 0;
};

Value global_cycler(Renderer& renderer, Arguments& arguments) {
  if (!arguments.named.empty()) throw type_error("Cycler.__init__() got an unexpected keyword argument");
  if (arguments.positional.empty()) throw error("runtime", "at least one item has to be provided");
  return object(renderer.heap().make<Cycler>(renderer.new_list(arguments.positional).list));
}

/// `joiner(…)`: nothing when called first, later its separator.
class Joiner final : public Object {
 public:
  explicit Joiner(const Value& separator) : separator_(separator) {}
  std::string_view type_name() const override { return "Joiner"; }
  std::string repr() const override { return "<jinja2.utils.Joiner object>"; }
  Value call(Renderer& renderer, Arguments& arguments) override {
    arguments.bind<1>("Joiner.__call__", {"self"}, 0);
    return std::exchange(is_used_, true) ? separator_ : renderer.part("");
  }

 private:
  Value separator_;
  bool is_used_ = false;
};

Value global_joiner(Renderer& renderer, Arguments& arguments) {
  const auto [separator] = arguments.bind<1>("Joiner.__init__", {"sep"}, 0);
  return object(renderer.heap().make<Joiner>(separator.is_missing() ? renderer.part(", ") : separator));
}

Value global_lipsum(Renderer&, Arguments&) { throw unsupported("function", "lipsum"); }

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
    if (function.name() == name) return object(&function);
  }
  return {};
}

Value Object::call(Renderer&, Arguments&) { throw type_error("'{}' object is not callable", type_name()); }

std::string Function::repr() const {
  if (self_.is_missing()) return fmt::format("<function {}>", name_);
  return fmt::format("<built-in method {} of {} object>", name_, jinja::type_name(self_));
}

Value Function::call(Renderer& renderer, Arguments& arguments) {
  if (!self_.is_missing()) arguments.positional.insert(arguments.positional.begin(), self_);
  return run_(renderer, arguments);
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

std::string Namespace::repr() const {
  std::string out = "<Namespace ";
  append_dict(out, attributes_);
  return out + ">";
}

Value Namespace::attribute(Renderer&, std::string_view name) {
  const Value* const found = attributes_.find(name);
  return found == nullptr ? Value{} : *found;
}

void Namespace::set(const Value& name, const Value& value) {
  if (name.is_string() && name.text().starts_with('_')) {
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

}  // namespace vitrine::jinja
