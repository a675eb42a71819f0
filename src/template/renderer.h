// What filters, tests and methods need of a rendering: its memory, its bounds, and Python's access to values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "template/chat_template.h"
#include "template/objects.h"
#include "template/origins.h"
#include "template/value.h"

namespace vitrine::jinja {

class Renderer {
 public:
  Renderer(Heap& heap, const TemplateClock& clock, std::int64_t max_steps, Origins* origins)
      : origins_(origins), heap_(heap), clock_(clock), steps_left_(max_steps), max_steps_(max_steps) {}
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;

  Heap& heap() { return heap_; }
  const TemplateClock& clock() const { return clock_; }
  /// Counts work. Throws TemplateError ("limit") once a rendering takes too many steps.
  void step(std::int64_t n = 1) {
    steps_left_ -= n;
    if (steps_left_ < 0) throw error("limit", "expected at most {} steps, got more", max_steps_);
  }

  Value text(std::string_view t, bool is_markup = false) { return string(heap_, t, is_markup); }
  Value text(const Draft& draft, bool is_markup = false) {
    const Value made = string(heap_, draft.text(), is_markup);
    if (origins_ != nullptr) origins_->add(made.text(), draft.spans());
    return made;
  }
  Draft new_draft() const { return Draft(origins_); }
  /// A string that begins with its text elsewhere: a part of another value's text, or a literal.
  Value part(std::string_view t, bool is_markup = false) { return borrowed(heap_, t, is_markup); }
  Value new_list(const std::vector<Value>& items);
  Value new_tuple(const std::vector<Value>& items) { return tuple(new_list(items).list); }
  /// Items that can be read once; `type` is a literal.
  Value new_iterator(const std::vector<Value>& items, std::string_view type = "generator");
  /// str() of a value, as long as the rendering.
  std::string_view str_of(const Value& value);

  Value undefined_name(std::string_view name) { return undefined(heap_, {Undefined::Why::name, part(name), {}, {}}); }
  Value undefined_member(const Value& object, const Value& name) {
    return undefined(heap_, {Undefined::Why::member, name, object, {}});
  }
  Value undefined_because(std::string_view hint) {
    return undefined(heap_, {Undefined::Why::hint, none(), {}, heap_.copy(hint)});
  }

  /// obj.name and obj[key] as jinja2's sandbox evaluates them: undefined where there is nothing.
  Value attribute(const Value& object, const Value& name);
  Value item(const Value& object, const Value& key);
  /// obj[start:stop:step]; parts that are not given are None.
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  Value call(const Value& function, Arguments& arguments);
  /// len(), or -1 for values without one.
  std::int64_t length(const Value& value);
  /// The items that an iteration over a value gives.
  std::vector<Value> items(const Value& iterable);
  /// Whether `item in container`.
  bool contains(const Value& container, const Value& item);

 protected:
  Origins* origins_;  ///< where bytes come from, or null if nobody asks

 private:
  Value subscript(const Value& object, const Value& key);

  Heap& heap_;
  const TemplateClock& clock_;
  std::int64_t steps_left_, max_steps_;
};

/// An iteration over a value, one item after the other.
class Iteration {
 public:
  /// Throws TemplateError (TypeError) if the value cannot be iterated over.
  Iteration(Renderer& renderer, const Value& iterable);
  bool next(Value& item);

 private:
  Renderer& renderer_;
  Value iterable_;
  std::size_t at_ = 0;
};

bool is_iterable(const Value& value);

/// Operators: a + b and so on, -a, +a, and `not a`. Throw TemplateError as Python does.
Value add(Renderer& renderer, const Value& a, const Value& b);
Value subtract(Renderer& renderer, const Value& a, const Value& b);
Value multiply(Renderer& renderer, const Value& a, const Value& b);
Value divide(Renderer& renderer, const Value& a, const Value& b);
Value floor_divide(Renderer& renderer, const Value& a, const Value& b);
Value modulo(Renderer& renderer, const Value& a, const Value& b);
Value power(Renderer& renderer, const Value& a, const Value& b);
Value negative(const Value& a);
Value positive(const Value& a);
Value inverse(const Value& a);

/// An integer of a float without its fraction. Throws TemplateError if it has none, or does not fit 64 bits.
Value truncated(double number);
/// A Python integer from an argument: a number of items, a width. Throws TemplateError (TypeError) for other types.
std::int64_t to_index(const Value& value);

}  // namespace vitrine::jinja
