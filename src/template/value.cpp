#include "template/value.h"

#include <cmath>
#include <functional>

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
  static constexpr std::string_view kNames[] = {"MissingType", "Undefined", "NoneType", "bool",  "int",  "float",
                                                "str",         "list",      "tuple",    "range", "view", "dict"};
  if (value.is_markup()) return "Markup";
  if (value.is(Kind::iterator)) return value.iterator->type_name;
  if (value.is(Kind::object)) return value.object->type_name();
  if ((value.is(Kind::tuple) || value.is(Kind::view)) && !value.list->label.empty()) return value.list->label;
  return kNames[static_cast<int>(value.kind)];
}

void fail_undefined(const Value& value) {
  const Undefined& u = *value.undefined;
  const std::string type = u.object.is_none() ? "None" : fmt::format("{} object", type_name(u.object));
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
  if (u.name.is_string()) throw error("undefined", "'{}' has no attribute {}", type, repr(u.name));
  throw error("undefined", "{} has no element {}", type, repr(u.name));
}

bool is_true(const Value& value) {
  if (value.has_items()) return !value.list->items.empty();
  switch (value.kind) {
    case Kind::boolean:
      return value.boolean;
    case Kind::integer:
      return value.integer != 0;
    case Kind::real:
      return value.real != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::dict:
      return !value.dict->entries.empty();
    case Kind::object:
      return value.object->size() != 0;
    default:
      return value.is(Kind::iterator);
  }
}

namespace {

/// The sign of a - b, exactly; 2 if one is NaN. A long double has all integers of 64 bits.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) {
    const std::int64_t x = a.as_integer(), y = b.as_integer();
    return (x > y) - (x < y);
  }
  const auto wide = [](const Value& v) {
    return v.is(Kind::real) ? static_cast<long double>(v.real) : static_cast<long double>(v.as_integer());
  };
  const long double x = wide(a), y = wide(b);
  return std::isnan(x) || std::isnan(y) ? 2 : (x > y) - (x < y);
}

bool same_or_equal(const Value& a, const Value& b) { return same(a, b) || equal(a, b); }

bool equal_items(const List& a, const List& b) {
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same_or_equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  return a.entries.size() == b.entries.size() &&
         std::all_of(a.entries.begin(), a.entries.end(), [&](const Dict::Entry& entry) {
           const Value* const other = b.find(entry.key);
           return other != nullptr && same_or_equal(entry.value, *other);
         });
}

/// a < b, or a <= b if `or_equal`. `sign` is the operator of the template.
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
      if (!same_or_equal(x[i], y[i])) return ordered(x[i], y[i], or_equal, sign);
    }
    return x.size() < y.size() || (or_equal && x.size() == y.size());
  }
  const bool is_swapped = sign[0] == '>';
  const Value &left = is_swapped ? b : a, &right = is_swapped ? a : b;
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  throw type_error("'{}' not supported between instances of '{}' and '{}'", sign, type_name(left), type_name(right));
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
    case Kind::range:
      return equal_items(*a.list, *b.list);
    case Kind::view:
      if (a.list != b.list) throw error("unsupported", "comparison of views of dicts: not supported");
      return true;
    case Kind::dict:
      return equal_dicts(*a.dict, *b.dict);
    case Kind::undefined:
      return true;
    default:
      return same(a, b);
  }
}

bool less(const Value& a, const Value& b) { return ordered(a, b, false, "<"); }
bool less_or_equal(const Value& a, const Value& b) { return ordered(a, b, true, "<="); }
bool greater(const Value& a, const Value& b) { return ordered(b, a, false, ">"); }
bool greater_or_equal(const Value& a, const Value& b) { return ordered(b, a, true, ">="); }

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
    case Kind::none:
    case Kind::undefined:
      return static_cast<std::size_t>(value.kind);
    case Kind::object:
      return std::hash<const void*>()(value.object);
    default:
      throw type_error("unhashable type: '{}'", type_name(value));
  }
}

std::size_t Dict::slot(const Value& key, std::size_t hash_of_key) const {
  std::size_t place = hash_of_key % index.size();
  while (index[place] >= 0 && !same_or_equal(entries[static_cast<std::size_t>(index[place])].key, key)) {
    place = (place + 1) % index.size();
  }
  return place;
}

const Value* Dict::find(std::string_view key) const {
  if (!index.empty()) {
    const Str text{key};
    return find(make_value<const Str*>(Kind::string, &Value::string, &text));
  }
  for (const Entry& entry : entries) {
    if (entry.key.is_string() && entry.key.text() == key) return &entry.value;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (index.empty()) {
    if (key.is_string()) return find(key.text());
    hash(key);  // throws where Python does
    for (const Entry& entry : entries) {
      if (same_or_equal(entry.key, key)) return &entry.value;
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
