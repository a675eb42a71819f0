// Filters of any value, and the list of all filters.
#include <charconv>
#include <cmath>

#include "template/builtins.h"
#include "template/format.h"
#include "template/json.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

/// The number that text spells in a base, as int() reads it: a prefix such as 0x is permitted.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  text = strip(text, true, true);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  if (!prefix.empty() && lower(text.substr(0, 2)) == prefix) text.remove_prefix(2);
  if (text.starts_with('-') || base < 2 || base > 36) return std::nullopt;
  std::uint64_t magnitude = 0;
  const auto [end, failure] =
      std::from_chars(text.data(), text.data() + text.size(), magnitude, static_cast<int>(base));
  if (end != text.data() + text.size() || failure == std::errc::invalid_argument) return std::nullopt;
  const std::uint64_t limit = std::uint64_t{INT64_MAX} + is_negative;
  if (failure != std::errc() || magnitude > limit) throw error("unsupported", "an integer does not fit 64 bits");
  return static_cast<std::int64_t>(is_negative ? 0 - magnitude : magnitude);
}

/// The number that text spells, as float() reads it.
std::optional<double> parse_number(std::string_view text) {
  text = strip(text, true, true);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return text.find('(') == text.npos ? parse_real(text) : std::nullopt;  // from_chars reads nan(…)
}

Value filter_int(Renderer&, Arguments& a) {
  const auto [value, otherwise, base] = a.bind<3>("do_int", {"value", "default", "base"}, 1);
  const Value fallback = otherwise.is_missing() ? integer(0) : otherwise;
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Kind::real)) return std::isnan(value.real) ? fallback : truncated(value.real);
  if (value.is_integer()) return integer(value.as_integer());
  if (!value.is_string()) return fallback;
  if (const auto parsed = parse_integer(value.text(), base.is_missing() ? 10 : to_index(base))) return integer(*parsed);
  const auto parsed = parse_number(value.text());
  return parsed && std::isfinite(*parsed) ? truncated(*parsed) : fallback;
}

Value filter_float(Renderer&, Arguments& a) {
  const auto [value, otherwise] = a.bind<2>("do_float", {"value", "default"}, 1);
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_number()) return real(value.as_real());
  const auto parsed = value.is_string() ? parse_number(value.text()) : std::nullopt;
  return parsed ? real(*parsed) : otherwise.is_missing() ? real(0) : otherwise;
}

Value filter_abs(Renderer&, Arguments& a) {
  const auto [x] = a.bind<1>("abs", {"x"}, 1);
  if (!x.is_number()) throw type_error("bad operand type for abs(): '{}'", type_name(x));
  return less(x, integer(0)) ? negative(x) : positive(x);
}

Value filter_default(Renderer& r, Arguments& a) {
  const auto [value, otherwise, also_false] = a.bind<3>("do_default", {"value", "default_value", "boolean"}, 1);
  if (!value.is_undefined() && !(is_true(also_false) && !is_true(value))) return value;
  return otherwise.is_missing() ? r.part("") : otherwise;
}

Value filter_round(Renderer& r, Arguments& a) {
  const auto [value, precision, method] = a.bind<3>("do_round", {"value", "precision", "method"}, 1);
  const std::string how = method.is_missing() ? "common" : str(method);
  const std::int64_t digits = precision.is_absent() ? 0 : to_index(precision);
  if (how != "common" && how != "ceil" && how != "floor")
    throw error("runtime", "method must be common, ceil or floor");
  if (!value.is_number()) throw type_error("type {} doesn't define __round__ method", type_name(value));
  if (how == "common") {  // half to even, of the exact value
    if (digits < 0) throw error("unsupported", "filter \"round\": a precision below 0 is not supported");
    if (value.is_integer()) return integer(value.as_integer());
    if (precision.is_none()) return truncated(std::nearbyint(value.real));
    if (!std::isfinite(value.real) || digits > 330) return value;
    const std::string text = real_digits(value.real, 'f', static_cast<int>(digits));
    return real(std::copysign(parse_real(text).value(), value.real));
  }
  const Value scale = power(r, integer(10), integer(digits));
  const double scaled = multiply(r, value, scale).as_real();
  return divide(r, truncated(how == "ceil" ? std::ceil(scaled) : std::floor(scaled)), scale);
}

Value filter_tojson(Renderer& r, Arguments& a) {
  const auto [x, ensure_ascii, indent, separators, sort_keys] =
      a.bind<5>("tojson", {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ascii = is_true(ensure_ascii);
  style.sort_keys = is_true(sort_keys);
  if (!indent.is_absent()) {
    style.is_indented = true;
    style.item_separator = ",";
    if (indent.is_string()) {
      style.indent = indent.text();
    } else {
      const auto n = static_cast<std::size_t>(std::max<std::int64_t>(to_index(indent), 0));
      r.heap().check(n);
      style.indent.assign(n, ' ');
    }
  }
  if (!separators.is_absent()) {
    const std::vector<Value> parts = r.items(separators);
    if (parts.size() != 2) throw value_error("tojson: expected two separators, got {}", parts.size());
    style.item_separator = str(parts[0]);
    style.key_separator = str(parts[1]);
  }
  return r.text(to_json(r, x, style));
}

// clang-format off
constexpr NamedBuiltin kFilters[] = {
    {"abs", filter_abs}, {"attr", refused}, {"batch", filter_batch}, {"capitalize", filter_capitalize},
    {"center", filter_center}, {"count", filter_length}, {"d", filter_default}, {"default", filter_default},
    {"dictsort", filter_dictsort}, {"e", filter_escape}, {"escape", filter_escape}, {"filesizeformat", refused},
    {"first", filter_first}, {"float", filter_float}, {"forceescape", filter_forceescape}, {"format", filter_format},
    {"groupby", filter_groupby}, {"indent", filter_indent}, {"int", filter_int}, {"items", filter_items},
    {"join", filter_join}, {"last", filter_last}, {"length", filter_length}, {"list", filter_list},
    {"lower", filter_lower}, {"map", filter_map}, {"max", filter_max}, {"min", filter_min}, {"pprint", refused},
    {"random", refused}, {"reject", filter_reject}, {"rejectattr", filter_rejectattr}, {"replace", filter_replace},
    {"reverse", filter_reverse}, {"round", filter_round}, {"safe", filter_safe}, {"select", filter_select},
    {"selectattr", filter_selectattr}, {"slice", filter_slice}, {"sort", filter_sort}, {"string", filter_string},
    {"striptags", refused}, {"sum", filter_sum}, {"title", filter_title}, {"tojson", filter_tojson},
    {"trim", filter_trim}, {"truncate", filter_truncate}, {"unique", filter_unique}, {"upper", filter_upper},
    {"urlencode", refused}, {"urlize", refused}, {"wordcount", filter_wordcount}, {"wordwrap", refused},
    {"xmlattr", refused},
};
// clang-format on

}  // namespace

Builtin* find_filter(std::string_view name) { return find_builtin(kFilters, name); }

}  // namespace vitrine::jinja
