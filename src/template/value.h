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
  dict,
  range,
  view,      ///< dict.keys(), dict.values(), dict.items()
  iterator,  ///< a generator: can be read once
  callable,  ///< a function, a method of a value, a macro, a block
  object,    ///< loop, namespace, cycler, joiner, self
};

struct Str;
struct List;
struct Dict;
struct IntegerRange;
struct View;
class Iterator;
class Callable;
class Object;
struct Undefined;

struct Value {
  Kind kind = Kind::missing;
  union {
    bool boolean;
    std::int64_t integer = 0;
    double real;
    const Str* string;
    List* list;  ///< of a list and of a tuple
    Dict* dict;
    const IntegerRange* range;
    const View* view;
    Iterator* iterator;
    Callable* callable;
    Object* object;
    const Undefined* undefined;
  };

  bool is(Kind k) const { return kind == k; }
  bool is_missing() const { return kind == Kind::missing; }
  bool is_undefined() const { return kind == Kind::undefined; }
  bool is_none() const { return kind == Kind::none; }
  bool is_string() const { return kind == Kind::string; }
  /// A number in Python's sense: booleans are integers.
  bool is_integer() const { return kind == Kind::integer || kind == Kind::boolean; }
  bool is_number() const { return is_integer() || kind == Kind::real; }
  bool is_sequence() const { return kind == Kind::list || kind == Kind::tuple; }
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
  explicit List(Heap& heap) : items(heap.resource()) {}
  std::pmr::vector<Value> items;
  bool is_group = false;  ///< a tuple of groupby, which has the attributes `grouper` and `list`
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

struct IntegerRange {
  std::int64_t start, stop, step, size;
  std::int64_t at(std::int64_t i) const { return start + i * step; }
};

struct View {
  enum class What : std::uint8_t { keys, values, items } what;
  Dict* dict;
};

/// A generator of Python's: filters such as `map` and `select` compute their items when they are read, once.
class Iterator {
 public:
  virtual bool next(Value& item) = 0;
  virtual std::string_view type_name() const { return "generator"; }

 protected:
  ~Iterator() = default;
};

struct Undefined {
  enum class Why : std::uint8_t { name, member, hint, unsafe } why;
  Value name;    ///< of the variable or member
  Value object;  ///< whose member is missing
  std::string_view hint = {};
};

inline bool Value::is_markup() const { return kind == Kind::string && string->is_markup; }
inline std::string_view Value::text() const { return string->text; }

inline Value none() {
  Value v;
  v.kind = Kind::none;
  return v;
}
inline Value boolean(bool b) {
  Value v;
  v.kind = Kind::boolean;
  v.integer = 0;
  v.boolean = b;
  return v;
}
inline Value integer(std::int64_t i) {
  Value v;
  v.kind = Kind::integer;
  v.integer = i;
  return v;
}
inline Value real(double d) {
  Value v;
  v.kind = Kind::real;
  v.real = d;
  return v;
}
/// A string whose text is kept elsewhere for as long as `heap`.
inline Value borrowed(Heap& heap, std::string_view text, bool is_markup = false) {
  Value v;
  v.kind = Kind::string;
  v.string = heap.make<Str>(Str{text, is_markup});
  return v;
}
inline Value string(Heap& heap, std::string_view text, bool is_markup = false) {
  return borrowed(heap, heap.copy(text), is_markup);
}
inline Value list(List* items) {
  Value v;
  v.kind = Kind::list;
  v.list = items;
  return v;
}
inline Value tuple(List* items) {
  Value v;
  v.kind = Kind::tuple;
  v.list = items;
  return v;
}
inline Value dict(Dict* d) {
  Value v;
  v.kind = Kind::dict;
  v.dict = d;
  return v;
}
inline Value range(const IntegerRange* r) {
  Value v;
  v.kind = Kind::range;
  v.range = r;
  return v;
}
inline Value view(Heap& heap, View::What what, Dict* d) {
  Value v;
  v.kind = Kind::view;
  v.view = heap.make<View>(View{what, d});
  return v;
}
inline Value iterator(Iterator* i) {
  Value v;
  v.kind = Kind::iterator;
  v.iterator = i;
  return v;
}
inline Value callable(Callable* c) {
  Value v;
  v.kind = Kind::callable;
  v.callable = c;
  return v;
}
inline Value object(Object* o) {
  Value v;
  v.kind = Kind::object;
  v.object = o;
  return v;
}
inline Value undefined(Heap& heap, const Undefined& u) {
  Value v;
  v.kind = Kind::undefined;
  v.undefined = heap.make<Undefined>(u);
  return v;
}
Value pair(Heap& heap, const Value& first, const Value& second);

/// Python's name of the type, as in its error messages.
std::string_view type_name(const Value& value);
/// The error of an operation on an undefined value.
[[noreturn]] void fail_undefined(const Value& value);

/// Python's bool(), ==, is, and hash().
bool is_true(const Value& value);
bool equal(const Value& a, const Value& b);
bool same(const Value& a, const Value& b);
std::size_t hash(const Value& value);
/// Python's a < b, a <= b, a > b and a >= b. Throw TemplateError (TypeError) for values without an order.
bool less(const Value& a, const Value& b);
bool less_or_equal(const Value& a, const Value& b);
bool greater(const Value& a, const Value& b);
bool greater_or_equal(const Value& a, const Value& b);

/// Bounds the recursion into nested values.
class Depth {
 public:
  Depth() {
    if (++depth_ > kMax) {
      --depth_;
      throw error("limit", "expected values that are nested at most {} deep", kMax);
    }
  }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  static constexpr int kMax = 400;

 private:
  static thread_local int depth_;
};

}  // namespace vitrine::jinja
