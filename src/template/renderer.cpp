#include "template/renderer.h"

#include <algorithm>

#include "template/builtins.h"
#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

/// getattr(object, name) as the sandbox permits it, or `missing`.
Value python_attribute(Renderer& renderer, const Value& object, const Value& name) {
  if (object.is_undefined()) fail_undefined(object);
  const std::string_view n = name.text();
  Builtin* const method = is_internal_name(n) ? unsafe_method : find_method(object, n);
  if (method == unsafe_method) return undefined(renderer.heap(), {Undefined::Why::unsafe, name, object, {}});
  if (method == refused) throw unsupported(fmt::format("method of {}", type_name(object)), n);
  if (method != nullptr) return jinja::object(renderer.heap().make<Function>(n, method, object));
  if (object.is(Kind::object)) return object.object->attribute(renderer, n);
  if (object.is(Kind::tuple) && !object.list->label.empty()) {  // of groupby
    if (n == "grouper") return object.list->items[0];
    if (n == "list") return object.list->items[1];
  }
  return {};
}

/// An index counted from the end if it is negative; -1 if it is outside.
std::int64_t position(std::int64_t index, std::int64_t size) {
  if (index < 0) index += size;
  return index < 0 || index >= size ? -1 : index;
}

struct SliceBounds {
  std::int64_t start, step, count;
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
    const std::int64_t i = number(v);
    return i < -size ? lowest : std::clamp(i < 0 ? i + size : i, lowest, highest);
  };
  const std::int64_t first = limited(start, by < 0 ? highest : lowest);
  const std::int64_t last = limited(stop, by < 0 ? lowest : highest);
  std::int64_t count = 0;
  if (by > 0 && first < last) count = (last - first - 1) / by + 1;
  if (by < 0 && first > last) count = by == INT64_MIN ? 1 : (first - last - 1) / -by + 1;
  return {first, by, count};
}

std::int64_t text_length(const Value& value) {
  const Str& text = *value.string;
  if (text.n_characters < 0) text.n_characters = count_characters(text.text);
  return text.n_characters;
}

Value text_slice(Renderer& renderer, const Value& object, const SliceBounds& s) {
  const std::string_view text = object.text();
  if (s.step == 1) {
    const bool ascii = text_length(object) == static_cast<std::int64_t>(text.size());
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

Value Renderer::new_list(const std::vector<Value>& items) {
  List* const made = heap_.make<List>(heap_);
  made->items.assign(items.begin(), items.end());
  return list(made);
}

Value Renderer::new_iterator(const std::vector<Value>& items, std::string_view type) {
  return make_value(Kind::iterator, &Value::iterator, heap_.make<Iterator>(Iterator{new_list(items).list, type}));
}

std::string_view Renderer::str_of(const Value& value) {
  return value.is_string() ? value.text() : heap_.copy(str(value));
}

Value Renderer::subscript(const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is(Kind::dict)) {
    if (key.is(Kind::list) || key.is(Kind::dict)) return {};
    const Value* const found = object.dict->find(key);
    return found == nullptr ? Value{} : *found;
  }
  if (!key.is_integer()) return {};
  if (object.is_sequence() || object.is(Kind::range)) {
    const auto& items = object.list->items;
    const std::int64_t i = position(key.as_integer(), static_cast<std::int64_t>(items.size()));
    return i < 0 ? Value{} : items[static_cast<std::size_t>(i)];
  }
  if (object.is_string()) {
    const std::int64_t i = position(key.as_integer(), text_length(object));
    return i < 0 ? Value{} : part(characters(object.text(), i, i + 1), object.is_markup());
  }
  return {};
}

Value Renderer::attribute(const Value& object, const Value& name) {
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
  if (!object.is_sequence() && !object.is_string() && !object.is(Kind::range)) {
    throw type_error("'{}' object is not subscriptable", type_name(object));
  }
  const SliceBounds s = slice_bounds(start, stop, step, length(object));
  this->step(s.count / 64);
  if (object.is_string()) return text_slice(*this, object, s);
  List* const made = heap_.make<List>(heap_);
  made->items.reserve(static_cast<std::size_t>(s.count));
  for (std::int64_t i = 0; i < s.count; ++i) {
    made->items.push_back(object.list->items[static_cast<std::size_t>(s.start + i * s.step)]);
  }
  return object.is(Kind::tuple) ? tuple(made) : list(made);
}

Value Renderer::call(const Value& function, Arguments& arguments) {
  step();
  if (function.is_undefined()) fail_undefined(function);
  if (function.is(Kind::object)) return function.object->call(*this, arguments);
  throw type_error("'{}' object is not callable", type_name(function));
}

std::int64_t Renderer::length(const Value& value) {
  if (value.has_items()) return static_cast<std::int64_t>(value.list->items.size());
  switch (value.kind) {
    case Kind::string:
      return text_length(value);
    case Kind::dict:
      return static_cast<std::int64_t>(value.dict->entries.size());
    case Kind::undefined:
      return 0;
    case Kind::object:
      return value.object->size();
    default:
      return -1;
  }
}

bool is_iterable(const Value& value) {
  return value.has_items() || value.is_string() || value.is(Kind::dict) || value.is(Kind::iterator) ||
         value.is_undefined();
}

Iteration::Iteration(Renderer& renderer, const Value& iterable) : renderer_(renderer), iterable_(iterable) {
  if (!is_iterable(iterable)) throw type_error("'{}' object is not iterable", type_name(iterable));
}

bool Iteration::next(Value& item) {
  renderer_.step();
  const auto next_of = [&item](const auto& items, std::size_t& at) {
    if (at >= items.size()) return false;
    item = items[at++];
    return true;
  };
  if (iterable_.has_items()) return next_of(iterable_.list->items, at_);
  if (iterable_.is(Kind::iterator)) return next_of(iterable_.iterator->items->items, iterable_.iterator->at);
  if (iterable_.is_string() && at_ < iterable_.text().size()) {
    const std::size_t begin = at_;
    next_character(iterable_.text(), at_);
    item = renderer_.part(iterable_.text().substr(begin, at_ - begin));
    return true;
  }
  if (iterable_.is(Kind::dict) && at_ < iterable_.dict->entries.size()) {
    item = iterable_.dict->entries[at_++].key;
    return true;
  }
  return false;
}

std::vector<Value> Renderer::items(const Value& iterable) {
  if (iterable.has_items()) {
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
    if (!item.is_string()) {
      throw type_error("'in <string>' requires string as left operand, not {}", type_name(item));
    }
    return container.text().find(item.text()) != std::string_view::npos;
  }
  if (container.is(Kind::dict)) return container.dict->find(item) != nullptr;
  if (!is_iterable(container)) throw type_error("argument of type '{}' is not iterable", type_name(container));
  Iteration iteration(*this, container);
  for (Value other; iteration.next(other);) {
    if (same(other, item) || equal(other, item)) return true;
  }
  return false;
}

std::int64_t to_index(const Value& value) {
  if (!value.is_integer()) throw type_error("'{}' object cannot be interpreted as an integer", type_name(value));
  return value.as_integer();
}

}  // namespace vitrine::jinja
