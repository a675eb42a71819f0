#include "template/renderer.h"

#include <algorithm>

#include "template/format.h"
#include "template/objects.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

Value data_attribute(Renderer& renderer, const Value& object, std::string_view name) {
  switch (object.kind) {
    case Kind::boolean:
    case Kind::integer:
      if (name == "real" || name == "numerator") return integer(object.as_integer());
      if (name == "imag") return integer(0);
      if (name == "denominator") return integer(1);
      return {};
    case Kind::real:
      if (name == "real") return object;
      if (name == "imag") return real(0);
      return {};
    case Kind::range:
      if (name == "start") return integer(object.range->start);
      if (name == "stop") return integer(object.range->stop);
      if (name == "step") return integer(object.range->step);
      return {};
    case Kind::view:
      return name == "mapping" ? dict(object.view->dict) : Value{};
    case Kind::tuple:
      if (object.list->is_group && name == "grouper") return object.list->items[0];
      if (object.list->is_group && name == "list") return object.list->items[1];
      return {};
    case Kind::callable:
      return object.callable->attribute(renderer, name);
    case Kind::object:
      return object.object->attribute(renderer, name);
    default:
      return {};
  }
}

/// getattr(object, name) as the sandbox permits it, or `missing`.
Value python_attribute(Renderer& renderer, const Value& object, const Value& name) {
  if (object.is_undefined() && !is_internal_name(name.text())) fail_undefined(object);
  bool is_unsafe = false;
  Builtin* const method = find_method(object, name.text(), is_unsafe);
  if (is_unsafe || is_internal_name(name.text())) {
    return undefined(renderer.heap(), {Undefined::Why::unsafe, name, object, {}});
  }
  if (method != nullptr) {
    Heap& heap = renderer.heap();
    return callable(heap.make<Function>(heap.copy(name.text()), method, object));
  }
  return data_attribute(renderer, object, name.text());
}

/// An index counted from the end if it is negative; -1 if it is outside.
std::int64_t position(std::int64_t index, std::int64_t size) {
  if (index < 0) index += size;
  return index < 0 || index >= size ? -1 : index;
}

struct SliceBounds {
  std::int64_t start, stop, step, count;
};

SliceBounds slice_bounds(const Value& start, const Value& stop, const Value& step, std::int64_t size) {
  const auto number = [](const Value& v) {
    if (!v.is_integer()) throw type_error("slice indices must be integers or None or have an __index__ method");
    return v.as_integer();
  };
  const std::int64_t by = step.is_none() ? 1 : number(step);
  if (by == 0) throw value_error("slice step cannot be zero");
  const std::int64_t lowest = by < 0 ? -1 : 0, highest = by < 0 ? size - 1 : size;
  const auto limited = [&](const Value& v, std::int64_t otherwise) {
    if (v.is_none()) return otherwise;
    std::int64_t i = number(v);
    if (i < 0) i = std::max(i, -size) + size == 0 && i < -size ? lowest : i + size;
    return std::clamp(i, lowest, highest);
  };
  const std::int64_t first = limited(start, by < 0 ? highest : lowest);
  const std::int64_t last = limited(stop, by < 0 ? lowest : highest);
  std::int64_t count = 0;
  if (by > 0 && first < last) count = (last - first - 1) / by + 1;
  if (by < 0 && first > last) count = by == INT64_MIN ? 1 : (first - last - 1) / -by + 1;
  return {first, last, by, count};
}

std::int64_t text_length(const Value& value) {
  const Str& text = *value.string;
  if (text.n_characters < 0) text.n_characters = count_characters(text.text);
  return text.n_characters;
}

Value text_slice(Renderer& renderer, const Value& object, const SliceBounds& s) {
  const std::string_view text = object.text();
  const bool ascii = text_length(object) == static_cast<std::int64_t>(text.size());
  if (s.step == 1) {
    const auto first = static_cast<std::size_t>(s.start);
    return renderer.part(ascii ? text.substr(s.count == 0 ? 0 : first, static_cast<std::size_t>(s.count))
                               : characters(text, s.start, s.start + s.count),
                         object.is_markup());
  }
  const std::u32string points = code_points(text);
  std::string out;
  for (std::int64_t i = 0; i < s.count; ++i)
    append_character(out, points[static_cast<std::size_t>(s.start + i * s.step)]);
  return renderer.text(out, object.is_markup());
}

}  // namespace

bool is_internal_name(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "__class__",   "__delattr__", "__dir__",           "__doc__",         "__eq__",
      "__format__",  "__ge__",      "__getattribute__",  "__getstate__",    "__gt__",
      "__hash__",    "__init__",    "__init_subclass__", "__le__",          "__lt__",
      "__ne__",      "__new__",     "__reduce__",        "__reduce_ex__",   "__repr__",
      "__setattr__", "__sizeof__",  "__str__",           "__subclasshook__"};
  return name.size() > 4 && name[0] == '_' && std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Value Renderer::new_list(const std::vector<Value>& items) {
  List* const made = heap_.make<List>(heap_);
  made->items.assign(items.begin(), items.end());
  return list(made);
}

Value Renderer::new_tuple(const std::vector<Value>& items) {
  Value made = new_list(items);
  made.kind = Kind::tuple;
  return made;
}

std::string_view Renderer::str_of(const Value& value) {
  return value.is_string() ? value.text() : heap_.copy(str(value));
}

Value Renderer::subscript(const Value& object, const Value& key) {
  switch (object.kind) {
    case Kind::undefined:
      fail_undefined(object);
    case Kind::dict: {
      if (key.is(Kind::list) || key.is(Kind::dict)) return {};
      const Value* const found = object.dict->find(key);
      return found == nullptr ? Value{} : *found;
    }
    case Kind::object:
      return object.object->item(*this, key);
    default:
      break;
  }
  if (!key.is_integer()) return {};
  if (object.is_sequence()) {
    const auto& items = object.list->items;
    const std::int64_t i = position(key.as_integer(), static_cast<std::int64_t>(items.size()));
    return i < 0 ? Value{} : items[static_cast<std::size_t>(i)];
  }
  if (object.is_string()) {
    const std::int64_t i = position(key.as_integer(), text_length(object));
    return i < 0 ? Value{} : part(characters(object.text(), i, i + 1), object.is_markup());
  }
  if (object.is(Kind::range)) {
    const std::int64_t i = position(key.as_integer(), object.range->size);
    return i < 0 ? Value{} : integer(object.range->at(i));
  }
  return {};
}

Value Renderer::attribute(const Value& object, const Value& name) {
  if (object.is(Kind::dict)) {  // the most frequent case: a key that is no method
    bool is_unsafe = false;
    if (find_method(object, name.text(), is_unsafe) == nullptr && !is_unsafe && !is_internal_name(name.text())) {
      const Value* const found = object.dict->find(name.text());
      return found != nullptr ? *found : undefined_member(object, name);
    }
  }
  Value found = python_attribute(*this, object, name);
  if (found.is_missing()) found = subscript(object, name);
  return found.is_missing() ? undefined_member(object, name) : found;
}

Value Renderer::item(const Value& object, const Value& key) {
  Value found = subscript(object, key);
  if (found.is_missing() && key.is_string()) found = python_attribute(*this, object, key);
  return found.is_missing() ? undefined_member(object, key) : found;
}

Value Renderer::slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is(Kind::dict)) throw type_error("unhashable type: 'slice'");
  const std::int64_t size = length(object);
  if (!object.is_sequence() && !object.is_string() && !object.is(Kind::range)) {
    throw type_error("'{}' object is not subscriptable", type_name(object));
  }
  const SliceBounds s = slice_bounds(start, stop, step, size);
  this->step(s.count / 64);
  if (object.is_string()) return text_slice(*this, object, s);
  if (object.is(Kind::range)) {
    const IntegerRange& r = *object.range;
    const std::int64_t first = r.at(s.start), by = r.step * s.step;
    return range(heap_.make<IntegerRange>(IntegerRange{first, r.at(s.stop), by, s.count}));
  }
  List* const made = heap_.make<List>(heap_);
  made->items.reserve(static_cast<std::size_t>(s.count));
  for (std::int64_t i = 0; i < s.count; ++i) {
    made->items.push_back(object.list->items[static_cast<std::size_t>(s.start + i * s.step)]);
  }
  return object.is(Kind::list) ? list(made) : tuple(made);
}

Value Renderer::call(const Value& function, Arguments& arguments) {
  step();
  if (function.is(Kind::callable)) return function.callable->call(*this, arguments);
  if (function.is_undefined()) fail_undefined(function);
  if (function.is(Kind::object) && function.object->is_callable()) return function.object->call(*this, arguments);
  throw type_error("'{}' object is not callable", type_name(function));
}

std::int64_t Renderer::length(const Value& value) {
  switch (value.kind) {
    case Kind::string:
      return text_length(value);
    case Kind::list:
    case Kind::tuple:
      return static_cast<std::int64_t>(value.list->items.size());
    case Kind::dict:
      return static_cast<std::int64_t>(value.dict->entries.size());
    case Kind::range:
      return value.range->size;
    case Kind::view:
      return static_cast<std::int64_t>(value.view->dict->entries.size());
    case Kind::undefined:
      return 0;
    case Kind::object:
      return value.object->size();
    default:
      return -1;
  }
}

bool is_iterable(const Value& value) {
  switch (value.kind) {
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::view:
    case Kind::undefined:
    case Kind::iterator:
      return true;
    default:
      return false;
  }
}

Iteration::Iteration(Renderer& renderer, const Value& iterable) : renderer_(renderer), iterable_(iterable) {
  if (!is_iterable(iterable)) throw type_error("'{}' object is not iterable", type_name(iterable));
}

bool Iteration::next(Value& item) {
  renderer_.step();
  switch (iterable_.kind) {
    case Kind::string: {
      const std::string_view text = iterable_.text();
      if (at_ >= text.size()) return false;
      const std::size_t begin = at_;
      next_character(text, at_);
      item = renderer_.part(text.substr(begin, at_ - begin));
      return true;
    }
    case Kind::list:
    case Kind::tuple:
      if (at_ >= iterable_.list->items.size()) return false;
      item = iterable_.list->items[at_++];
      return true;
    case Kind::dict:
      if (at_ >= iterable_.dict->entries.size()) return false;
      item = iterable_.dict->entries[at_++].key;
      return true;
    case Kind::range:
      if (static_cast<std::int64_t>(at_) >= iterable_.range->size) return false;
      item = integer(iterable_.range->at(static_cast<std::int64_t>(at_++)));
      return true;
    case Kind::view: {
      if (at_ >= iterable_.view->dict->entries.size()) return false;
      const Dict::Entry& entry = iterable_.view->dict->entries[at_++];
      item = iterable_.view->what == View::What::keys     ? entry.key
             : iterable_.view->what == View::What::values ? entry.value
                                                          : pair(renderer_.heap(), entry.key, entry.value);
      return true;
    }
    case Kind::iterator:
      return iterable_.iterator->next(item);
    default:
      return false;
  }
}

std::vector<Value> Renderer::items(const Value& iterable) {
  if (iterable.is_sequence()) {
    step(length(iterable));
    return {iterable.list->items.begin(), iterable.list->items.end()};
  }
  Iteration iteration(*this, iterable);
  std::vector<Value> result;
  for (Value item; iteration.next(item);) result.push_back(item);
  return result;
}

bool Renderer::contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    if (item.is_undefined() || !item.is_string()) {
      throw type_error("'in <string>' requires string as left operand, not {}", type_name(item));
    }
    return container.text().find(item.text()) != std::string_view::npos;
  }
  if (container.is(Kind::dict)) return container.dict->find(item) != nullptr;
  if (container.is(Kind::view) && container.view->what == View::What::keys) {
    return container.view->dict->find(item) != nullptr;
  }
  if (!is_iterable(container)) throw type_error("argument of type '{}' is not iterable", type_name(container));
  Iteration iteration(*this, container);
  for (Value other; iteration.next(other);) {
    if (same(other, item) || equal(other, item)) return true;
  }
  return false;
}

std::int64_t to_index(const Value& value) {
  if (value.is_undefined()) throw type_error("'Undefined' object cannot be interpreted as an integer");
  if (!value.is_integer()) throw type_error("'{}' object cannot be interpreted as an integer", type_name(value));
  return value.as_integer();
}

}  // namespace vitrine::jinja
