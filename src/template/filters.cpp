// Filters of any value, and the list of all filters.
#include <charconv>
#include <cmath>

#include "template/builtins.h"
#include "template/format.h"
#include "template/json.h"
#include "template/parser.h"
#include "template/percent_format.h"
#include "template/pretty.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

constexpr NamedBuiltin kFilters[] = {
    {"abs", filter_abs},
    {"attr", filter_attr},
    {"batch", filter_batch},
    {"capitalize", filter_capitalize},
    {"center", filter_center},
    {"count", filter_length},
    {"d", filter_default},
    {"default", filter_default},
    {"dictsort", filter_dictsort},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"filesizeformat", filter_filesizeformat},
    {"first", filter_first},
    {"float", filter_float},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"groupby", filter_groupby},
    {"indent", filter_indent},
    {"int", filter_int},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"lower", filter_lower},
    {"map", filter_map},
    {"max", filter_max},
    {"min", filter_min},
    {"pprint", filter_pprint},
    {"random", filter_random},
    {"reject", filter_reject},
    {"rejectattr", filter_rejectattr},
    {"replace", filter_replace},
    {"reverse", filter_reverse},
    {"round", filter_round},
    {"safe", filter_safe},
    {"select", filter_select},
    {"selectattr", filter_selectattr},
    {"slice", filter_slice},
    {"sort", filter_sort},
    {"string", filter_string},
    {"striptags", filter_striptags},
    {"sum", filter_sum},
    {"title", filter_title},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"unique", filter_unique},
    {"upper", filter_upper},
    {"urlencode", filter_urlencode},
    {"urlize", filter_urlize},
    {"wordcount", filter_wordcount},
    {"wordwrap", filter_wordwrap},
    {"xmlattr", filter_xmlattr},
};

/// Digits of any script as ASCII, without the underscores that Python permits between digits; empty if the text has
/// others.
std::string plain_number(std::string_view text) {
  text = strip(text, true, true);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    const int digit = decimal_value(c);
    if (c == '_') {
      const bool between = !out.empty() && std::isalnum(static_cast<unsigned char>(out.back())) != 0 &&
                           at < text.size() && text[at] != '_';
      if (!between) return {};
    } else if (digit >= 0) {
      out += static_cast<char>('0' + digit);
    } else if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      return {};
    }
  }
  return out;
}

}  // namespace

Builtin* find_filter(std::string_view name) { return find_builtin(kFilters, name); }

Value apply_filter(Renderer& renderer, const Value& name, Arguments& arguments) {
  Builtin* const filter = name.is_string() ? find_filter(name.text()) : nullptr;
  if (filter == nullptr) {
    if (!name.is_string()) hash(name);
    throw error("runtime", "No filter named {}.", repr(name));
  }
  renderer.step();
  return filter(renderer, arguments);
}

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  std::string digits = plain_number(text);
  std::size_t at = !digits.empty() && (digits[0] == '-' || digits[0] == '+') ? 1 : 0;
  const bool is_negative = at == 1 && digits[0] == '-';
  const char letter = digits.size() > at + 2 && digits[at] == '0' ? static_cast<char>(digits[at + 1] | 0x20) : '\0';
  const int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (base == 0 && prefix == 0 && digits.size() > at + 1 && digits[at] == '0' &&
      digits.find_first_not_of('0', at) != digits.npos) {
    return {};
  }
  if (prefix != 0 && (base == 0 || base == prefix)) at += 2;
  if (base == 0) base = prefix == 0 ? 10 : prefix;
  if (at >= digits.size() || digits[at] == '-' || digits[at] == '+') return {};
  std::uint64_t magnitude = 0;
  const auto result =
      std::from_chars(digits.data() + at, digits.data() + digits.size(), magnitude, static_cast<int>(base));
  if (result.ptr != digits.data() + digits.size() || result.ec == std::errc::invalid_argument) return {};
  const std::uint64_t limit = std::uint64_t{INT64_MAX} + is_negative;
  if (result.ec != std::errc() || magnitude > limit) throw error("unsupported", "an integer does not fit 64 bits");
  return static_cast<std::int64_t>(is_negative ? 0 - magnitude : magnitude);
}

std::optional<double> parse_real(std::string_view text) {
  const std::string digits = plain_number(text);
  std::size_t at = !digits.empty() && (digits[0] == '-' || digits[0] == '+') ? 1 : 0;
  if (at >= digits.size() || digits[at] == '-' || digits[at] == '+') return {};
  const std::string word = lower(std::string_view(digits).substr(at));
  const double sign = at == 1 && digits[0] == '-' ? -1 : 1;
  if (word == "inf" || word == "infinity") return sign * HUGE_VAL;
  if (word == "nan") return std::nan("");
  if (word[0] == 'i' || word[0] == 'n') return {};
  double value = 0;
  const auto result = std::from_chars(digits.data() + at, digits.data() + digits.size(), value);
  if (result.ptr != digits.data() + digits.size() || result.ec == std::errc::invalid_argument) return {};
  if (result.ec == std::errc::result_out_of_range) value = word.find("e-") != word.npos ? 0.0 : HUGE_VAL;
  return sign * value;
}

Value filter_int(Renderer&, Arguments& a) {
  const auto [value, otherwise, base] = a.bind<3>("do_int", {"value", "default", "base"}, 1);
  const Value fallback = otherwise.is_missing() ? integer(0) : otherwise;
  const auto truncated = [&](double d) {
    if (!std::isfinite(d)) return fallback;
    if (std::fabs(d) >= 9.2e18) throw error("unsupported", "an integer does not fit 64 bits");
    return integer(static_cast<std::int64_t>(d));
  };
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Kind::real)) {
    if (std::isinf(value.real)) throw error("OverflowError", "cannot convert float infinity to integer");
    return truncated(value.real);
  }
  if (value.is_integer()) return integer(value.as_integer());
  if (!value.is_string()) return fallback;
  const std::int64_t in_base = base.is_missing() ? 10 : base.is_integer() ? base.as_integer() : -1;
  if (in_base == 0 || (in_base >= 2 && in_base <= 36)) {
    if (const auto parsed = parse_integer(value.text(), in_base)) return integer(*parsed);
  }
  const auto parsed = parse_real(value.text());
  return parsed ? truncated(*parsed) : fallback;
}

Value filter_float(Renderer&, Arguments& a) {
  const auto [value, otherwise] = a.bind<2>("do_float", {"value", "default"}, 1);
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_number()) return real(value.as_real());
  const auto parsed = value.is_string() ? parse_real(value.text()) : std::nullopt;
  if (parsed) return real(*parsed);
  return otherwise.is_missing() ? real(0) : otherwise;
}

Value filter_abs(Renderer& r, Arguments& a) {
  const auto [x] = a.bind<1>("abs", {"x"}, 1);
  if (x.is_undefined()) throw type_error("bad operand type for abs(): 'Undefined'");
  if (x.is(Kind::real)) return real(std::fabs(x.real));
  if (!x.is_integer()) throw type_error("bad operand type for abs(): '{}'", type_name(x));
  return x.as_integer() < 0 ? negative(r, x) : integer(x.as_integer());
}

Value filter_attr(Renderer& r, Arguments& a) {
  const auto [obj, name] = a.bind<2>("do_attr", {"obj", "name"}, 2);
  if (!name.is_string()) throw type_error("attribute name must be string, not '{}'", type_name(name));
  if (obj.is_undefined() || is_internal_name(name.text())) return r.attribute(obj, name);
  // Only attributes count, not items.
  Value without_items = obj;
  Dict empty(r.heap());
  if (obj.is(Kind::dict)) without_items.dict = &empty;
  const Value found = r.attribute(without_items, name);
  if (found.is_undefined() && found.undefined->why == Undefined::Why::member) return r.undefined_member(obj, name);
  return obj.is(Kind::dict) ? r.attribute(obj, name) : found;
}

Value filter_default(Renderer& r, Arguments& a) {
  const auto [value, otherwise, also_false] = a.bind<3>("do_default", {"value", "default_value", "boolean"}, 1);
  if (!value.is_undefined() && !(is_true(also_false) && !is_true(value))) return value;
  return otherwise.is_missing() ? r.part("") : otherwise;
}

namespace {

/// round(value, digits) of Python: half to even, exactly.
Value rounded(const Value& value, std::int64_t digits) {
  if (value.is_integer()) {
    std::int64_t number = value.as_integer();
    if (digits >= 0) return integer(number);
    if (digits < -18) return integer(0);
    std::int64_t unit = 1;
    for (std::int64_t i = digits; i < 0; ++i) unit *= 10;
    const std::int64_t rest = ((number % unit) + unit) % unit;
    std::int64_t low = 0;
    if (__builtin_sub_overflow(number, rest, &low)) throw error("unsupported", "an integer does not fit 64 bits");
    const bool up = rest * 2 > unit || (rest * 2 == unit && (low / unit) % 2 != 0);
    if (up && __builtin_add_overflow(low, unit, &low)) throw error("unsupported", "an integer does not fit 64 bits");
    return integer(low);
  }
  const double d = value.real;
  if (!std::isfinite(d) || d == 0 || digits > 330) return real(d);
  if (digits < -330) return real(std::copysign(0.0, d));
  if (digits >= 0) {
    const std::string text = real_digits(std::fabs(d), 'f', static_cast<int>(digits), false);
    double result = 0;
    std::from_chars(text.data(), text.data() + text.size(), result);
    return real(std::copysign(result, d));
  }
  // Before the point: the digits that are kept, as an exact decimal.
  const std::string exact = real_digits(std::fabs(d), 'f', 1080, false);
  const std::size_t point = exact.find('.');
  const std::int64_t kept = static_cast<std::int64_t>(point) + digits;
  if (kept < 0) return real(std::copysign(0.0, d));
  std::string text = exact.substr(0, static_cast<std::size_t>(kept));
  const std::string rest =
      exact.substr(static_cast<std::size_t>(kept), point - static_cast<std::size_t>(kept)) + exact.substr(point + 1);
  const bool is_half = rest[0] == '5' && rest.find_first_not_of('0', 1) == rest.npos;
  const bool up = is_half ? !text.empty() && (text.back() - '0') % 2 != 0 : rest[0] >= '5';
  if (up) {
    std::size_t i = text.size();
    while (i > 0 && text[i - 1] == '9') text[--i] = '0';
    if (i > 0) {
      ++text[i - 1];
    } else {
      text.insert(0, 1, '1');
    }
  }
  text += "e" + std::to_string(-digits);
  if (text[0] == 'e') text.insert(0, 1, '0');
  double result = 0;
  std::from_chars(text.data(), text.data() + text.size(), result);
  return real(std::copysign(result, d));
}

}  // namespace

Value filter_round(Renderer& r, Arguments& a) {
  const auto [value, precision, method] = a.bind<3>("do_round", {"value", "precision", "method"}, 1);
  const std::string how = method.is_missing() ? "common" : str(method);
  if (how != "common" && how != "ceil" && how != "floor")
    throw error("runtime", "method must be common, ceil or floor");
  if (how == "common") {
    if (!value.is_number()) {
      if (value.is_undefined()) throw type_error("type Undefined doesn't define __round__ method");
      throw type_error("type {} doesn't define __round__ method", type_name(value));
    }
    if (precision.is_none() && value.is(Kind::real)) {
      const Value whole = rounded(value, 0);
      if (std::isnan(whole.real)) throw value_error("cannot convert float NaN to integer");
      if (std::isinf(whole.real)) throw error("OverflowError", "cannot convert float infinity to integer");
      return integer(static_cast<std::int64_t>(whole.real));
    }
    return rounded(value, precision.is_missing() || precision.is_none() ? 0 : to_index(precision));
  }
  const Value scale = power(r, integer(10), precision.is_missing() ? integer(0) : precision);
  const Value scaled = multiply(r, value, scale);
  if (!scaled.is_number()) throw type_error("must be real number, not {}", type_name(scaled));
  double whole = scaled.as_real();
  if (std::isnan(whole)) throw value_error("cannot convert float NaN to integer");
  if (std::isinf(whole)) throw error("OverflowError", "cannot convert float infinity to integer");
  whole = how == "ceil" ? std::ceil(whole) : std::floor(whole);
  if (std::fabs(whole) >= 9.2e18) throw error("unsupported", "an integer does not fit 64 bits");
  return divide(r, integer(static_cast<std::int64_t>(whole)), scale);
}

Value filter_tojson(Renderer& r, Arguments& a) {
  const auto [x, ensure_ascii, indent, separators, sort_keys] =
      a.bind<5>("tojson", {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ascii = is_true(ensure_ascii);
  style.sort_keys = is_true(sort_keys);
  if (!indent.is_missing() && !indent.is_none()) {
    style.is_indented = true;
    if (indent.is_string()) {
      style.indent = indent.text();
    } else {
      const std::int64_t n = indent.is_integer() ? indent.as_integer() : to_index(indent);
      r.heap().check(static_cast<std::size_t>(std::max<std::int64_t>(n, 0)));
      style.indent.assign(static_cast<std::size_t>(std::max<std::int64_t>(n, 0)), ' ');
    }
    style.item_separator = ",";
  }
  if (!separators.is_missing() && !separators.is_none()) {
    const std::vector<Value> parts = r.items(separators);
    if (parts.size() != 2) {
      if (parts.size() > 2) throw value_error("too many values to unpack (expected 2)");
      throw value_error("not enough values to unpack (expected 2, got {})", parts.size());
    }
    style.item_separator = str(parts[0]);
    style.key_separator = str(parts[1]);
  }
  return r.text(to_json(r, x, style));
}

Value filter_pprint(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("do_pprint", {"value"}, 1);
  return r.text(pretty(value));
}

}  // namespace vitrine::jinja
