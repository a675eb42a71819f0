// The methods of lists, tuples, dicts, numbers and ranges, and which method a name means.
#include "template/builtins.h"
#include "template/format.h"

namespace vitrine::jinja {
namespace {

Value dict_get(Renderer&, Arguments& a) {
  const auto [self, key, otherwise] = a.bind<3>("get", {"self", "key", "default"}, 2);
  const Value* const found = self.dict->find(key);
  return found != nullptr ? *found : otherwise.is_missing() ? none() : otherwise;
}

/// keys(), values() or items(), by the label of the view.
template <char what>
Value dict_view(Renderer& r, Arguments& a) {
  const auto [self] = a.bind<1>("dict", {"self"}, 1);
  const char* const label = what == 'k' ? "dict_keys" : what == 'v' ? "dict_values" : "dict_items";
  List* const made = r.heap().make<List>(r.heap(), label);
  made->items.reserve(self.dict->entries.size());
  r.step(static_cast<std::int64_t>(self.dict->entries.size()));
  for (const auto& [key, value] : self.dict->entries) {
    made->items.push_back(what == 'k' ? key : what == 'v' ? value : pair(r.heap(), key, value));
  }
  return make_value(Kind::view, &Value::list, made);
}

Value sequence_count(Renderer& r, Arguments& a) {
  const auto [self, value] = a.bind<2>("count", {"self", "value"}, 2);
  std::int64_t n = 0;
  for (const Value& item : r.items(self)) n += same(item, value) || equal(item, value);
  return integer(n);
}

Value sequence_index(Renderer& r, Arguments& a) {
  const auto [self, value] = a.bind<2>("index", {"self", "value"}, 2);
  std::int64_t i = 0;
  for (const Value& item : r.items(self)) {
    if (same(item, value) || equal(item, value)) return integer(i);
    ++i;
  }
  throw value_error("{} is not in {}", repr(value), type_name(self));
}

constexpr NamedBuiltin kDictMethods[] = {
    {"clear", unsafe_method},      {"copy", refused},         {"fromkeys", refused},     {"get", dict_get},
    {"items", dict_view<'i'>},     {"keys", dict_view<'k'>},  {"pop", unsafe_method},    {"popitem", unsafe_method},
    {"setdefault", unsafe_method}, {"update", unsafe_method}, {"values", dict_view<'v'>}};
constexpr NamedBuiltin kListMethods[] = {
    {"append", unsafe_method}, {"clear", unsafe_method},   {"copy", refused},         {"count", sequence_count},
    {"extend", unsafe_method}, {"index", sequence_index},  {"insert", unsafe_method}, {"pop", unsafe_method},
    {"remove", unsafe_method}, {"reverse", unsafe_method}, {"sort", unsafe_method}};
constexpr NamedBuiltin kTupleMethods[] = {{"count", sequence_count}, {"index", sequence_index}};
constexpr NamedBuiltin kRangeMethods[] = {
    {"count", sequence_count}, {"index", sequence_index}, {"start", refused}, {"step", refused}, {"stop", refused}};
constexpr NamedBuiltin kViewMethods[] = {{"isdisjoint", refused}, {"mapping", refused}};
constexpr NamedBuiltin kNumberMethods[] = {
    {"as_integer_ratio", refused}, {"bit_count", refused},   {"bit_length", refused},
    {"conjugate", refused},        {"denominator", refused}, {"from_bytes", refused},
    {"fromhex", refused},          {"hex", refused},         {"imag", refused},
    {"is_integer", refused},       {"numerator", refused},   {"real", refused},
    {"to_bytes", refused}};

}  // namespace

Value refused(Renderer&, Arguments&) { throw InternalError("template", "a refused function was called"); }
Value unsafe_method(Renderer&, Arguments&) { throw InternalError("template", "an unsafe method was called"); }

bool is_only_key(std::string_view name) {
  return find_builtin(kDictMethods, name) == nullptr && !is_internal_name(name);
}

Builtin* find_method(const Value& value, std::string_view name) {
  switch (value.kind) {
    case Kind::string:
      return find_text_method(name);
    case Kind::dict:
      return find_builtin(kDictMethods, name);
    case Kind::list:
      return find_builtin(kListMethods, name);
    case Kind::tuple:
      return find_builtin(kTupleMethods, name);
    case Kind::range:
      return find_builtin(kRangeMethods, name);
    case Kind::view:
      return find_builtin(kViewMethods, name);
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      return find_builtin(kNumberMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace vitrine::jinja
