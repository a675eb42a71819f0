#include "template/value.h"

#include <cmath>
#include <functional>
#include <limits>

#include "template/callable.h"
#include "template/format.h"
#include "template/objects.h"

namespace vitrine::jinja {

thread_local int Depth::depth_ = 0;

Value pair(Heap& heap, const Value& first, const Value& second) {
  List* const items = heap.make<List>(heap);
  items->items.assign({first, second});
  return tuple(items);
}

std::string_view type_name(const Value& value) {
  switch (value.kind) {
    case Kind::missing:
      return "MissingType";
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return value.is_markup() ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return value.list->is_group ? "_GroupTuple" : "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::view:
      return value.view->what == View::What::keys     ? "dict_keys"
             : value.view->what == View::What::values ? "dict_values"
                                                      : "dict_items";
    case Kind::iterator:
      return value.iterator->type_name();
    case Kind::callable:
      return value.callable->type_name();
    case Kind::object:
      return value.object->type_name();
  }
  return "object";
}

void fail_undefined(const Value& value) {
  const Undefined& u = *value.undefined;
  const auto type = [&] {
    return u.object.is_none() ? std::string("None") : fmt::format("{} object", type_name(u.object));
  };
  switch (u.why) {
    case Undefined::Why::hint:
      throw error("undefined", "{}", u.hint);
    case Undefined::Why::name:
      throw error("undefined", "{} is undefined", repr(u.name));
    case Undefined::Why::unsafe:
      throw error("security", "access to attribute {} of '{}' object is unsafe.", repr(u.name), type_name(u.object));
    case Undefined::Why::member:
      break;
  }
  if (u.name.is_string()) throw error("undefined", "'{}' has no attribute {}", type(), repr(u.name));
  throw error("undefined", "{} has no element {}", type(), repr(u.name));
}

bool is_true(const Value& value) {
  switch (value.kind) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean;
    case Kind::integer:
      return value.integer != 0;
    case Kind::real:
      return value.real != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::list:
    case Kind::tuple:
      return !value.list->items.empty();
    case Kind::dict:
      return !value.dict->entries.empty();
    case Kind::range:
      return value.range->size != 0;
    case Kind::view:
      return !value.view->dict->entries.empty();
    case Kind::object: {
      const std::int64_t size = value.object->size();
      return size != 0;
    }
    case Kind::iterator:
    case Kind::callable:
      return true;
  }
  return true;
}

namespace {

/// The sign of a - b, exactly; 2 if one is NaN.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) {
    const std::int64_t x = a.as_integer(), y = b.as_integer();
    return (x > y) - (x < y);
  }
  if (a.is(Kind::real) && b.is(Kind::real)) {
    if (std::isnan(a.real) || std::isnan(b.real)) return 2;
    return (a.real > b.real) - (a.real < b.real);
  }
  if (a.is(Kind::real)) {
    const int sign = compare_numbers(b, a);
    return sign == 2 ? 2 : -sign;
  }
  // An integer and a float: compared as integers where the float is one of 64 bits.
  const double y = b.real;
  if (std::isnan(y)) return 2;
  if (y >= 9223372036854775808.0) return -1;
  if (y < -9223372036854775808.0) return 1;
  const auto whole = static_cast<std::int64_t>(y);
  const std::int64_t x = a.as_integer();
  if (x != whole) return x > whole ? 1 : -1;
  const double rest = y - static_cast<double>(whole);
  return (rest < 0) - (rest > 0);
}

bool equal_items(const std::pmr::vector<Value>& a, const std::pmr::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same(a[i], b[i]) && !equal(a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const Dict::Entry& entry : a.entries) {
    const Value* const other = b.find(entry.key);
    if (other == nullptr || (!same(entry.value, *other) && !equal(entry.value, *other))) return false;
  }
  return true;
}

bool equal_ranges(const IntegerRange& a, const IntegerRange& b) {
  if (a.size != b.size || a.size == 0) return a.size == b.size;
  return a.start == b.start && (a.size == 1 || a.step == b.step);
}

bool equal_views(const View& a, const View& b) {
  if (a.what == View::What::values || a.what != b.what) return false;  // values have no equality
  if (a.dict->entries.size() != b.dict->entries.size()) return false;
  for (const Dict::Entry& entry : a.dict->entries) {
    const Value* const other = b.dict->find(entry.key);
    if (other == nullptr || (a.what == View::What::items && !equal(entry.value, *other))) return false;
  }
  return true;
}

[[noreturn]] void no_order(const Value& a, const Value& b, const char* sign) {
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  throw type_error("'{}' not supported between instances of '{}' and '{}'", sign, type_name(a), type_name(b));
}

bool have_order(const Value& a, const Value& b) {
  return (a.is_number() && b.is_number()) || (a.kind == b.kind && (a.is_string() || a.is_sequence()));
}

/// a < b, or a <= b if `or_equal`.
bool ordered(const Value& a, const Value& b, bool or_equal, const char* sign) {
  const Depth depth;
  if (a.is_number() && b.is_number()) {
    const int sign_of = compare_numbers(a, b);
    return sign_of == -1 || (or_equal && sign_of == 0);
  }
  if (a.is_string() && b.is_string()) {
    const int order = a.text().compare(b.text());  // UTF-8 has the order of its code points
    return order < 0 || (or_equal && order == 0);
  }
  if (a.is_sequence() && a.kind == b.kind) {
    const auto &x = a.list->items, &y = b.list->items;
    for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!same(x[i], y[i]) && !equal(x[i], y[i])) return ordered(x[i], y[i], or_equal, sign);
    }
    return x.size() < y.size() || (or_equal && x.size() == y.size());
  }
  no_order(a, b, sign);
}

constexpr std::size_t kFewEntries = 8;

}  // namespace

bool same(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::missing:
    case Kind::none:
      return true;
    case Kind::boolean:
      return a.boolean == b.boolean;
    case Kind::integer:
      return a.integer == b.integer && a.integer >= -5 && a.integer <= 256;  // CPython's shared ints
    case Kind::real:
      return false;
    case Kind::string:
      return a.string == b.string || (a.text().data() == b.text().data() && a.text().size() == b.text().size());
    default:
      return a.object == b.object;
  }
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind != b.kind) return false;
  const Depth depth;
  switch (a.kind) {
    case Kind::string:
      return a.text() == b.text();
    case Kind::list:
    case Kind::tuple:
      return equal_items(a.list->items, b.list->items);
    case Kind::dict:
      return equal_dicts(*a.dict, *b.dict);
    case Kind::range:
      return equal_ranges(*a.range, *b.range);
    case Kind::view:
      return a.view == b.view || equal_views(*a.view, *b.view);
    case Kind::missing:
    case Kind::none:
    case Kind::undefined:
      return true;
    case Kind::callable:
      return a.callable == b.callable || a.callable->equals(*b.callable);
    default:
      return a.object == b.object;
  }
}

bool less(const Value& a, const Value& b) { return ordered(a, b, false, "<"); }
bool less_or_equal(const Value& a, const Value& b) { return ordered(a, b, true, "<="); }
bool greater(const Value& a, const Value& b) {
  if (!have_order(a, b)) no_order(a, b, ">");
  return ordered(b, a, false, ">");
}
bool greater_or_equal(const Value& a, const Value& b) {
  if (!have_order(a, b)) no_order(a, b, ">=");
  return ordered(b, a, true, ">=");
}

std::size_t hash(const Value& value) {
  switch (value.kind) {
    case Kind::real:
      if (value.real == std::floor(value.real) && std::fabs(value.real) < 9.2e18) {
        return std::hash<std::int64_t>()(static_cast<std::int64_t>(value.real));
      }
      return std::hash<double>()(value.real);
    case Kind::boolean:
    case Kind::integer:
      return std::hash<std::int64_t>()(value.as_integer());
    case Kind::string:
      return std::hash<std::string_view>()(value.text());
    case Kind::tuple: {
      const Depth depth;
      std::size_t sum = 1;
      for (const Value& item : value.list->items) sum = sum * 1000003 + hash(item);
      return sum;
    }
    case Kind::list:
    case Kind::dict:
      throw type_error("unhashable type: '{}'", type_name(value));
    case Kind::view:
      if (value.view->what != View::What::values) throw type_error("unhashable type: '{}'", type_name(value));
      return std::hash<const void*>()(value.view);
    case Kind::range:
      return static_cast<std::size_t>(value.range->size * 31 + value.range->start);
    case Kind::none:
    case Kind::missing:
    case Kind::undefined:
      return static_cast<std::size_t>(value.kind);
    default:
      return std::hash<const void*>()(value.object);
  }
}

std::size_t Dict::slot(const Value& key, std::size_t hash_of_key) const {
  std::size_t place = hash_of_key % index.size();
  while (index[place] >= 0) {
    const Value& other = entries[static_cast<std::size_t>(index[place])].key;
    if (same(other, key) || equal(other, key)) break;
    place = (place + 1) % index.size();
  }
  return place;
}

const Value* Dict::find(std::string_view key) const {
  if (index.empty()) {
    for (const Entry& entry : entries) {
      if (entry.key.is_string() && entry.key.text() == key) return &entry.value;
    }
    return nullptr;
  }
  Str text{key};
  Value value;
  value.kind = Kind::string;
  value.string = &text;
  return find(value);
}

const Value* Dict::find(const Value& key) const {
  if (index.empty()) {
    if (key.is_string()) return find(key.text());
    hash(key);  // throws where Python does
    for (const Entry& entry : entries) {
      if (same(entry.key, key) || equal(entry.key, key)) return &entry.value;
    }
    return nullptr;
  }
  const std::int32_t i = index[slot(key, hash(key))];
  return i < 0 ? nullptr : &entries[static_cast<std::size_t>(i)].value;
}

void Dict::set(const Value& key, const Value& value) {
  const Value* const known = find(key);
  if (known != nullptr) {
    *const_cast<Value*>(known) = value;  // an entry of this dict
    return;
  }
  entries.push_back({key, value});
  if (entries.size() <= kFewEntries) return;
  if (entries.size() * 2 > index.size()) {
    index.assign(entries.size() * 4 + 1, -1);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      index[slot(entries[i].key, hash(entries[i].key))] = static_cast<std::int32_t>(i);
    }
  } else {
    index[slot(key, hash(key))] = static_cast<std::int32_t>(entries.size() - 1);
  }
}

}  // namespace vitrine::jinja
