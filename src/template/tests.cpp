// The built-in tests of jinja2: `value is name(argument)`.
#include "template/builtins.h"
#include "template/format.h"
#include "template/objects.h"
#include "template/parser.h"
#include "template/text.h"
#include "template/unicode_tables.h"

namespace vitrine::jinja {
namespace {

template <bool test(Renderer&, const Value&)>
Value of_one(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("test", {"value"}, 1);
  return boolean(test(r, value));
}
template <bool test(Renderer&, const Value&, const Value&)>
Value of_two(Renderer& r, Arguments& a) {
  const auto [value, other] = a.bind<2>("test", {"value", "other"}, 2);
  return boolean(test(r, value, other));
}

bool is_remainder(Renderer& r, const Value& value, const Value& by, std::int64_t rest) {
  return equal(modulo(r, value, by), integer(rest));
}
bool is_odd(Renderer& r, const Value& v) { return is_remainder(r, v, integer(2), 1); }
bool is_even(Renderer& r, const Value& v) { return is_remainder(r, v, integer(2), 0); }
bool is_divisible(Renderer& r, const Value& v, const Value& by) { return is_remainder(r, v, by, 0); }
bool is_defined(Renderer&, const Value& v) { return !v.is_undefined(); }
bool is_undefined(Renderer&, const Value& v) { return v.is_undefined(); }
bool is_none(Renderer&, const Value& v) { return v.is_none(); }
bool is_boolean(Renderer&, const Value& v) { return v.is(Kind::boolean); }
bool is_false(Renderer&, const Value& v) { return v.is(Kind::boolean) && !v.boolean; }
bool is_true_value(Renderer&, const Value& v) { return v.is(Kind::boolean) && v.boolean; }
bool is_integer_value(Renderer&, const Value& v) { return v.is(Kind::integer); }
bool is_real(Renderer&, const Value& v) { return v.is(Kind::real); }
bool is_string_value(Renderer&, const Value& v) { return v.is_string(); }
bool is_mapping(Renderer&, const Value& v) { return v.is(Kind::dict); }
bool is_number_value(Renderer&, const Value& v) { return v.is_number(); }
bool is_iterable_value(Renderer&, const Value& v) {
  return is_iterable(v) || (v.is(Kind::object) && v.object->type_name() == "LoopContext");
}
bool is_sequence_value(Renderer&, const Value& v) {
  return v.is_string() || v.is_sequence() || v.is(Kind::dict) || v.is(Kind::range) || v.is_undefined();
}
bool is_callable(Renderer&, const Value& v) {
  return v.is(Kind::callable) || v.is_undefined() || (v.is(Kind::object) && v.object->is_callable());
}
bool is_escaped(Renderer&, const Value& v) { return v.is_markup(); }
bool is_same(Renderer&, const Value& v, const Value& other) { return same(v, other); }
bool is_in(Renderer& r, const Value& v, const Value& container) { return r.contains(container, v); }
bool is_equal(Renderer&, const Value& a, const Value& b) { return equal(a, b); }
bool is_unequal(Renderer&, const Value& a, const Value& b) { return !equal(a, b); }
bool is_less(Renderer&, const Value& a, const Value& b) { return less(a, b); }
bool is_less_or_equal(Renderer&, const Value& a, const Value& b) { return less_or_equal(a, b); }
bool is_greater(Renderer&, const Value& a, const Value& b) { return greater(a, b); }
bool is_greater_or_equal(Renderer&, const Value& a, const Value& b) { return greater_or_equal(a, b); }
bool is_lower(Renderer& r, const Value& v) { return has_case(r.str_of(v), kLower); }
bool is_upper(Renderer& r, const Value& v) { return has_case(r.str_of(v), kUpper); }
bool is_known(Renderer&, const Value& name, Builtin* find(std::string_view)) {
  if (!name.is_string()) hash(name);
  return name.is_string() && find(name.text()) != nullptr;
}
bool is_filter(Renderer& r, const Value& name) { return is_known(r, name, find_filter); }
bool is_test(Renderer& r, const Value& name) { return is_known(r, name, find_test); }

constexpr NamedBuiltin kTests[] = {
    {"!=", of_two<is_unequal>},
    {"<", of_two<is_less>},
    {"<=", of_two<is_less_or_equal>},
    {"==", of_two<is_equal>},
    {">", of_two<is_greater>},
    {">=", of_two<is_greater_or_equal>},
    {"boolean", of_one<is_boolean>},
    {"callable", of_one<is_callable>},
    {"defined", of_one<is_defined>},
    {"divisibleby", of_two<is_divisible>},
    {"eq", of_two<is_equal>},
    {"equalto", of_two<is_equal>},
    {"escaped", of_one<is_escaped>},
    {"even", of_one<is_even>},
    {"false", of_one<is_false>},
    {"filter", of_one<is_filter>},
    {"float", of_one<is_real>},
    {"ge", of_two<is_greater_or_equal>},
    {"greaterthan", of_two<is_greater>},
    {"gt", of_two<is_greater>},
    {"in", of_two<is_in>},
    {"integer", of_one<is_integer_value>},
    {"iterable", of_one<is_iterable_value>},
    {"le", of_two<is_less_or_equal>},
    {"lessthan", of_two<is_less>},
    {"lower", of_one<is_lower>},
    {"lt", of_two<is_less>},
    {"mapping", of_one<is_mapping>},
    {"ne", of_two<is_unequal>},
    {"none", of_one<is_none>},
    {"number", of_one<is_number_value>},
    {"odd", of_one<is_odd>},
    {"sameas", of_two<is_same>},
    {"sequence", of_one<is_sequence_value>},
    {"string", of_one<is_string_value>},
    {"test", of_one<is_test>},
    {"true", of_one<is_true_value>},
    {"undefined", of_one<is_undefined>},
    {"upper", of_one<is_upper>},
};

}  // namespace

Builtin* find_test(std::string_view name) { return find_builtin(kTests, name); }

bool apply_test(Renderer& renderer, const Value& name, Arguments& arguments) {
  Builtin* const test = name.is_string() ? find_test(name.text()) : nullptr;
  if (test == nullptr) {
    if (!name.is_string()) hash(name);
    throw error("runtime", "No test named {}.", repr(name));
  }
  renderer.step();
  return is_true(test(renderer, arguments));
}

}  // namespace vitrine::jinja
