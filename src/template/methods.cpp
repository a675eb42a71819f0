// The methods of lists, tuples, dicts, numbers and ranges.
#include <algorithm>
#include <cmath>

#include "template/methods.h"

#include "template/builtins.h"
#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

Value dict_get(Renderer&, Arguments& a) {
  if (!a.named.empty()) throw type_error("dict.get() takes no keyword arguments");
  const auto [self, key, otherwise] = a.bind<3>("get", {"self", "key", "default"}, 2);
  const Value* const found = self.dict->find(key);
  return found != nullptr ? *found : otherwise.is_missing() ? none() : otherwise;
}
template <View::What what>
Value dict_view(Renderer& r, Arguments& a) {
  const auto [self] = a.bind<1>("dict", {"self"}, 1);
  return view(r.heap(), what, self.dict);
}
Value dict_copy(Renderer& r, Arguments& a) {
  const auto [self] = a.bind<1>("copy", {"self"}, 1);
  Dict* const made = r.heap().make<Dict>(r.heap());
  for (const Dict::Entry& entry : self.dict->entries) made->set(entry.key, entry.value);
  return dict(made);
}
Value dict_fromkeys(Renderer& r, Arguments& a) {
  const auto [self, keys, value] = a.bind<3>("fromkeys", {"self", "iterable", "value"}, 2);
  Dict* const made = r.heap().make<Dict>(r.heap());
  for (const Value& key : r.items(keys)) made->set(key, value.is_missing() ? none() : value);
  return dict(made);
}

Value sequence_count(Renderer& r, Arguments& a) {
  const auto [self, value] = a.bind<2>("count", {"self", "value"}, 2);
  std::int64_t n = 0;
  for (const Value& item : r.items(self)) n += same(item, value) || equal(item, value);
  return integer(n);
}
Value sequence_index(Renderer& r, Arguments& a) {
  const auto [self, value, start, stop] = a.bind<4>("index", {"self", "value", "start", "stop"}, 2);
  const std::vector<Value> items = r.items(self);
  const auto size = static_cast<std::int64_t>(items.size());
  const auto limited = [&](const Value& v, std::int64_t otherwise) {
    if (v.is_missing()) return otherwise;
    const std::int64_t i = to_index(v);
    return i < 0 ? std::max<std::int64_t>(i + size, 0) : i;
  };
  const std::int64_t end = std::min(limited(stop, size), size);
  for (std::int64_t i = limited(start, 0); i < end; ++i) {
    const Value& item = items[static_cast<std::size_t>(i)];
    if (same(item, value) || equal(item, value)) return integer(i);
  }
  if (self.is(Kind::tuple)) throw value_error("tuple.index(x): x not in tuple");
  throw value_error("{} is not in {}", repr(value), type_name(self));
}
Value list_copy(Renderer& r, Arguments& a) {
  const auto [self] = a.bind<1>("copy", {"self"}, 1);
  return r.new_list(r.items(self));
}
Value view_isdisjoint(Renderer& r, Arguments& a) {
  const auto [self, other] = a.bind<2>("isdisjoint", {"self", "other"}, 2);
  for (const Value& item : r.items(other)) {
    if (r.contains(self, item)) return boolean(false);
  }
  return boolean(true);
}

Value int_bit_length(Renderer&, Arguments& a) {
  const auto [self] = a.bind<1>("bit_length", {"self"}, 1);
  std::uint64_t magnitude = static_cast<std::uint64_t>(std::abs(self.as_integer()));
  std::int64_t n = 0;
  for (; magnitude != 0; magnitude >>= 1) ++n;
  return integer(n);
}
Value int_bit_count(Renderer&, Arguments& a) {
  const auto [self] = a.bind<1>("bit_count", {"self"}, 1);
  return integer(__builtin_popcountll(static_cast<std::uint64_t>(std::abs(self.as_integer()))));
}
Value number_conjugate(Renderer&, Arguments& a) {
  const auto [self] = a.bind<1>("conjugate", {"self"}, 1);
  return self.is(Kind::boolean) ? integer(self.as_integer()) : self;
}
Value int_ratio(Renderer& r, Arguments& a) {
  const auto [self] = a.bind<1>("as_integer_ratio", {"self"}, 1);
  return pair(r.heap(), integer(self.as_integer()), integer(1));
}
Value real_ratio(Renderer& r, Arguments& a) {
  const auto [self] = a.bind<1>("as_integer_ratio", {"self"}, 1);
  if (std::isnan(self.real)) throw value_error("cannot convert NaN to integer ratio");
  if (std::isinf(self.real)) throw error("OverflowError", "cannot convert Infinity to integer ratio");
  double whole = self.real;
  std::int64_t below = 1;
  while (whole != std::floor(whole) && below < (std::int64_t{1} << 61)) {
    whole *= 2;
    below *= 2;
  }
  if (whole != std::floor(whole) || std::fabs(whole) >= 9.2e18) {
    throw error("unsupported", "an integer does not fit 64 bits");
  }
  return pair(r.heap(), integer(static_cast<std::int64_t>(whole)), integer(below));
}
Value real_is_integer(Renderer&, Arguments& a) {
  const auto [self] = a.bind<1>("is_integer", {"self"}, 1);
  return boolean(std::isfinite(self.real) && self.real == std::floor(self.real));
}

constexpr NamedBuiltin kDictMethods[] = {
    {"copy", dict_copy},
    {"fromkeys", dict_fromkeys},
    {"get", dict_get},
    {"items", dict_view<View::What::items>},
    {"keys", dict_view<View::What::keys>},
    {"values", dict_view<View::What::values>},
};
constexpr NamedBuiltin kListMethods[] = {{"copy", list_copy}, {"count", sequence_count}, {"index", sequence_index}};
constexpr NamedBuiltin kTupleMethods[] = {{"count", sequence_count}, {"index", sequence_index}};
constexpr NamedBuiltin kViewMethods[] = {{"isdisjoint", view_isdisjoint}};
constexpr NamedBuiltin kIntMethods[] = {{"as_integer_ratio", int_ratio},
                                        {"bit_count", int_bit_count},
                                        {"bit_length", int_bit_length},
                                        {"conjugate", number_conjugate}};
constexpr NamedBuiltin kRealMethods[] = {
    {"as_integer_ratio", real_ratio}, {"conjugate", number_conjugate}, {"is_integer", real_is_integer}};

constexpr std::string_view kListChanges[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};

template <std::size_t n>
bool is_any(std::string_view name, const std::string_view (&names)[n]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

Builtin* find_method(const Value& value, std::string_view name, bool& is_unsafe) {
  is_unsafe = false;
  switch (value.kind) {
    case Kind::string:
      return find_text_method(name, value.is_markup());
    case Kind::dict:
      is_unsafe = is_any(name, kDictChanges);
      return find_builtin(kDictMethods, name);
    case Kind::list:
      is_unsafe = is_any(name, kListChanges);
      return find_builtin(kListMethods, name);
    case Kind::tuple:
    case Kind::range:
      return find_builtin(kTupleMethods, name);
    case Kind::view:
      return value.view->what == View::What::values ? nullptr : find_builtin(kViewMethods, name);
    case Kind::boolean:
    case Kind::integer:
      return find_builtin(kIntMethods, name);
    case Kind::real:
      return find_builtin(kRealMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace vitrine::jinja
