// The values of templates: Python's, as far as a template can meet them.
//
// A Value is a kind and a number or a pointer into a Heap. Values of the same list share it, as in Python; nothing that
// a template can do changes a list or a dict after it was made.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include "template/heap.h"

namespace vitrine::jinja {

enum class Kind : std::uint8_t {
  missing,    ///< no value: a variable that was never set, an argument that was not given
  undefined,  ///< jinja2's Undefined
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  range,  ///< range(…), with all its items
  view,   ///< dict.keys(), dict.values(), dict.items(), with all their items
  dict,
  iterator,  ///< a generator: can be read once
  object,    ///< a function, a method of a value, a macro, loop, namespace, cycler, joiner
};

struct Str;
struct List;
struct Dict;
struct Iterator;
class Object;
struct Undefined;

struct Value {
  Kind kind = Kind::missing;
  union {
    bool boolean;
    std::int64_t integer = 0;
    double real;
    const Str* string;
    List* list;  ///< of a list, a tuple, a range and a view
    Dict* dict;
    Iterator* iterator;
    Object* object;
    const Undefined* undefined;
  };

  bool is(Kind k) const { return kind == k; }
  bool is_missing() const { return kind == Kind::missing; }
  bool is_undefined() const { return kind == Kind::undefined; }
  bool is_none() const { return kind == Kind::none; }
  /// Whether an optional argument is not given, or None, which means the same.
  bool is_absent() const { return is_missing() || is_none(); }
  bool is_string() const { return kind == Kind::string; }
  /// A number in Python's sense: booleans are integers.
  bool is_integer() const { return kind == Kind::integer || kind == Kind::boolean; }
  bool is_number() const { return is_integer() || kind == Kind::real; }
  bool is_sequence() const { return kind == Kind::list || kind == Kind::tuple; }
  bool has_items() const { return is_sequence() || kind == Kind::range || kind == Kind::view; }
  bool is_markup() const;
  std::int64_t as_integer() const { return kind == Kind::boolean ? boolean : integer; }
  double as_real() const { return kind == Kind::real ? real : static_cast<double>(as_integer()); }
  std::string_view text() const;
};

struct Str {
  std::string_view text;
  bool is_markup = false;
  mutable std::int64_t n_characters = -1;  ///< -1: not counted yet
};

struct List {
  explicit List(Heap& heap, std::string_view l = {}) : items(heap.resource()), label(l) {}
  std::pmr::vector<Value> items;
  /// The type's name of a view and of a tuple of `groupby`; of a range, its repr().
  std::string_view label;
};

/// Entries in the order of their insertion. Keys are equal as in Python: 1, 1.0 and True are one key.
struct Dict {
  struct Entry {
    Value key, value;
  };
  explicit Dict(Heap& heap) : entries(heap.resource()), index(heap.resource()) {}
  /// The value of a key, or null. Throws TemplateError (TypeError) if the key cannot be hashed.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  /// Adds an entry or changes its value.
  void set(const Value& key, const Value& value);

  std::pmr::vector<Entry> entries;

 private:
  std::size_t slot(const Value& key, std::size_t hash) const;
  std::pmr::vector<std::int32_t> index;  ///< open addressing, -1: free; empty for few entries
};

/// What filters such as `map` and `select` give: items that are read once.
struct Iterator {
  const List* items;
  std::string_view type_name;
  std::size_t at = 0;
};

struct Undefined {
  enum class Why : std::uint8_t { name, member, hint, unsafe } why;
  Value name;    ///< of the variable or member
  Value object;  ///< whose member is missing
  std::string_view hint = {};
};

inline bool Value::is_markup() const { return kind == Kind::string && string->is_markup; }
inline std::string_view Value::text() const { return string->text; }

template <class T>
Value make_value(Kind kind, T Value::*member, T content) {
  Value v;
  v.kind = kind;
  v.*member = content;
  return v;
}
inline Value none() { return make_value<std::int64_t>(Kind::none, &Value::integer, 0); }
inline Value boolean(bool b) { return make_value(Kind::boolean, &Value::boolean, b); }
inline Value integer(std::int64_t i) { return make_value(Kind::integer, &Value::integer, i); }
inline Value real(double d) { return make_value(Kind::real, &Value::real, d); }
inline Value list(List* items) { return make_value(Kind::list, &Value::list, items); }
inline Value tuple(List* items) { return make_value(Kind::tuple, &Value::list, items); }
inline Value dict(Dict* d) { return make_value(Kind::dict, &Value::dict, d); }
inline Value object(Object* o) { return make_value(Kind::object, &Value::object, o); }
/// A string whose text is kept elsewhere for as long as `heap`.
inline Value borrowed(Heap& heap, std::string_view text, bool is_markup = false) {
  return make_value<const Str*>(Kind::string, &Value::string, heap.make<Str>(Str{text, is_markup}));
}
inline Value string(Heap& heap, std::string_view text, bool is_markup = false) {
  return borrowed(heap, heap.copy(text), is_markup);
}
inline Value undefined(Heap& heap, const Undefined& u) {
  return make_value<const Undefined*>(Kind::undefined, &Value::undefined, heap.make<Undefined>(u));
}
Value pair(Heap& heap, const Value& first, const Value& second);

/// Python's name of the type, as in its error messages.
std::string_view type_name(const Value& value);
/// The error of an operation on an undefined value.
[[noreturn]] void fail_undefined(const Value& value);

/// Python's bool(), ==, is, and hash().
bool is_true(const Value& value);
bool equal(const Value& a, const Value& b);
inline bool unequal(const Value& a, const Value& b) { return !equal(a, b); }
bool same(const Value& a, const Value& b);
std::size_t hash(const Value& value);
/// Python's a < b, a <= b, a > b and a >= b. Throw TemplateError (TypeError) for values without an order.
bool less(const Value& a, const Value& b);
bool less_or_equal(const Value& a, const Value& b);
bool greater(const Value& a, const Value& b);
bool greater_or_equal(const Value& a, const Value& b);

/// Bounds the recursion into nested values.
class Depth : Nested {
 public:
  Depth() : Nested(depth_, 400, "values") {}

 private:
  static thread_local int depth_;
};

}  // namespace vitrine::jinja
