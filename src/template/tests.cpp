// The built-in tests of jinja2: `value is name(argument)`.
#include "template/builtins.h"
#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

/// A test of a value alone, and one that takes an argument.
template <auto test>
Value of_one(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("test", {"value"}, 1);
  return boolean(test(r, value));
}
template <auto test>
Value of_two(Renderer& r, Arguments& a) {
  const auto [value, other] = a.bind<2>("test", {"value", "other"}, 2);
  return boolean(test(r, value, other));
}
/// A test of the kind of a value.
template <bool (Value::*test)() const>
Value of_kind(Renderer& r, Arguments& a) {
  return of_one<[](Renderer&, const Value& v) { return (v.*test)(); }>(r, a);
}
template <Kind kind>
Value is_of(Renderer& r, Arguments& a) {
  return of_one<[](Renderer&, const Value& v) { return v.is(kind); }>(r, a);
}
/// A comparison.
template <bool test(const Value&, const Value&)>
Value compared(Renderer& r, Arguments& a) {
  return of_two<[](Renderer&, const Value& v, const Value& other) { return test(v, other); }>(r, a);
}

bool is_remainder(Renderer& r, const Value& value, const Value& by, std::int64_t rest) {
  return equal(modulo(r, value, by), integer(rest));
}
bool is_odd(Renderer& r, const Value& v) { return is_remainder(r, v, integer(2), 1); }
bool is_even(Renderer& r, const Value& v) { return is_remainder(r, v, integer(2), 0); }
bool is_divisible(Renderer& r, const Value& v, const Value& by) { return is_remainder(r, v, by, 0); }
bool is_contained(Renderer& r, const Value& v, const Value& container) { return r.contains(container, v); }
bool is_defined(Renderer&, const Value& v) { return !v.is_undefined(); }
template <bool wanted>
bool is_boolean(Renderer&, const Value& v) {
  return v.is(Kind::boolean) && v.boolean == wanted;
}
bool is_iterable_value(Renderer&, const Value& v) {
  return is_iterable(v) || (v.is(Kind::object) && v.object->type_name() == "LoopContext");
}
bool is_sequence(Renderer&, const Value& v) {
  return v.is_string() || v.is_sequence() || v.is(Kind::dict) || v.is(Kind::range) || v.is_undefined();
}
bool is_callable(Renderer&, const Value& v) {
  return v.is_undefined() || (v.is(Kind::object) && v.object->is_callable());
}
template <bool is_upper>
bool is_in_case(Renderer& r, const Value& v) {
  return has_case(r.str_of(v), is_upper);
}
template <Builtin* find(std::string_view)>
bool is_known(Renderer&, const Value& name) {
  Builtin* const found = name.is_string() ? find(name.text()) : nullptr;
  return found != nullptr && found != refused;
}

// clang-format off
constexpr NamedBuiltin kTests[] = {
    {"!=", compared<unequal>}, {"<", compared<less>}, {"<=", compared<less_or_equal>}, {"==", compared<equal>},
    {">", compared<greater>}, {">=", compared<greater_or_equal>}, {"boolean", is_of<Kind::boolean>},
    {"callable", of_one<is_callable>}, {"defined", of_one<is_defined>}, {"divisibleby", of_two<is_divisible>},
    {"eq", compared<equal>}, {"equalto", compared<equal>}, {"escaped", of_kind<&Value::is_markup>},
    {"even", of_one<is_even>}, {"false", of_one<is_boolean<false>>}, {"filter", of_one<is_known<find_filter>>},
    {"float", is_of<Kind::real>}, {"ge", compared<greater_or_equal>}, {"greaterthan", compared<greater>},
    {"gt", compared<greater>}, {"in", of_two<is_contained>}, {"integer", is_of<Kind::integer>},
    {"iterable", of_one<is_iterable_value>}, {"le", compared<less_or_equal>}, {"lessthan", compared<less>},
    {"lower", of_one<is_in_case<false>>}, {"lt", compared<less>}, {"mapping", is_of<Kind::dict>},
    {"ne", compared<unequal>}, {"none", is_of<Kind::none>}, {"number", of_kind<&Value::is_number>},
    {"odd", of_one<is_odd>}, {"sameas", compared<same>}, {"sequence", of_one<is_sequence>},
    {"string", is_of<Kind::string>}, {"test", of_one<is_known<find_test>>}, {"true", of_one<is_boolean<true>>},
    {"undefined", is_of<Kind::undefined>}, {"upper", of_one<is_in_case<true>>},
};
// clang-format on

}  // namespace

Builtin* find_test(std::string_view name) { return find_builtin(kTests, name); }

}  // namespace vitrine::jinja
