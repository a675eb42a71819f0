// text % arguments and text.format(…): two syntaxes for the same fields.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "template/format.h"
#include "template/renderer.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

/// How a field is written: [[fill]align][sign][#][0][width][,][.precision][type].
struct Field {
  char32_t fill = ' ';
  char align = '\0', sign = '-', type = '\0';
  bool alternate = false, grouping = false;
  std::int64_t width = 0;
  int precision = -1;
};

/// Reads the parts of a field.
struct FieldReader {
  std::string_view text;
  std::size_t at = 0;

  bool is_any(std::string_view set) const { return at < text.size() && set.find(text[at]) != set.npos; }
  bool take(std::string_view set) {
    const bool found = is_any(set);
    at += found;
    return found;
  }
  std::int64_t number() {
    std::int64_t value = 0;
    while (is_any("0123456789")) value = std::min<std::int64_t>(value * 10 + (text[at++] - '0'), INT32_MAX);
    return value;
  }
  /// The precision after a point. More digits than any float has are not for templates.
  int precision() {
    const std::int64_t value = number();
    if (value > 1100) throw error("limit", "expected a precision of at most 1100, got {}", value);
    return static_cast<int>(value);
  }
};

[[noreturn]] void refuse(std::string_view format) { throw unsupported("format", format); }

std::string padded(Renderer& renderer, const Field& f, const std::string& sign, std::string_view text,
                   char default_align) {
  const std::int64_t size = count_characters(text) + static_cast<std::int64_t>(sign.size());
  const auto n_fill = static_cast<std::size_t>(std::max<std::int64_t>(f.width - size, 0));
  renderer.heap().check(n_fill * 4);
  const char align = f.align == '\0' ? default_align : f.align;
  const std::size_t before = align == '<' || align == '=' ? 0 : align == '^' ? n_fill / 2 : n_fill;
  const std::size_t between = align == '=' ? n_fill : 0;
  std::string out;
  for (std::size_t i = 0; i < before; ++i) append_character(out, f.fill);
  out += sign;
  for (std::size_t i = 0; i < between; ++i) append_character(out, f.fill);
  out += text;
  for (std::size_t i = before + between; i < n_fill; ++i) append_character(out, f.fill);
  return out;
}

/// A number with commas between groups of three digits before its point.
std::string grouped(std::string digits) {
  std::size_t i = std::min(digits.find_first_not_of("0123456789"), digits.size());
  while (i > 3) digits.insert(i -= 3, 1, ',');
  return digits;
}

[[noreturn]] void fail_type(char type, const Value& value) {
  if (std::string_view("EFGcn").find(type) != std::string_view::npos) refuse(std::string_view(&type, 1));
  throw value_error("Unknown format code '{}' for object of type '{}'", type, type_name(value));
}

std::string format_number(Renderer& renderer, const Field& f, const Value& value, bool is_negative,
                          const std::string& digits, std::string_view prefix = "") {
  if (f.grouping && f.fill == '0' && f.align == '=') refuse("0,");
  std::string sign = is_negative ? "-" : f.sign == '-' ? "" : std::string(1, f.sign);
  if (f.alternate && value.is(Kind::real)) refuse("#");
  if (f.alternate) sign += prefix;
  return padded(renderer, f, sign, f.grouping ? grouped(digits) : digits, '>');
}

std::string format_real(Renderer& renderer, const Value& value, const Field& f) {
  const double number = value.as_real();
  if (f.type == '\0' && f.precision >= 0) refuse(fmt::format(".{}", f.precision));
  if (std::string_view("efg%\0", 5).find(f.type) == std::string_view::npos) fail_type(f.type, value);
  const std::string digits =
      f.type == '\0' ? real_text(std::fabs(number)) : real_digits(number, f.type, f.precision < 0 ? 6 : f.precision);
  return format_number(renderer, f, value, std::signbit(number) && !std::isnan(number), digits);
}

std::string format_integer(Renderer& renderer, const Value& value, const Field& f) {
  if (f.type != '\0' && std::string_view("efg%").find(f.type) != std::string_view::npos) {
    return format_real(renderer, real(value.as_real()), f);
  }
  const bool is_decimal = f.type == 'd' || f.type == '\0';
  if (!is_decimal && std::string_view("boxX").find(f.type) == std::string_view::npos) fail_type(f.type, value);
  if (f.precision >= 0) throw value_error("Precision not allowed in integer format specifier");
  if (f.grouping && !is_decimal) throw value_error("Cannot specify ',' with '{}'.", f.type);
  const std::int64_t number = value.as_integer();
  const std::uint64_t magnitude =
      number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  const int base = is_decimal ? 10 : f.type == 'b' ? 2 : f.type == 'o' ? 8 : 16;
  char buffer[64];
  std::string digits(buffer, std::to_chars(buffer, buffer + sizeof buffer, magnitude, base).ptr);
  if (f.type == 'X') digits = upper(digits);
  return format_number(renderer, f, value, number < 0, digits, is_decimal ? "" : std::string("0") + f.type);
}

std::string format_string(Renderer& renderer, std::string_view text, const Field& f, char default_align) {
  return padded(renderer, f, "", f.precision < 0 ? text : characters(text, 0, f.precision), default_align);
}

class PercentFormat {
 public:
  PercentFormat(Renderer& renderer, const Value& text, const Value& arguments)
      : renderer_(renderer), escapes_(text.is_markup()), reader_{text.text()}, arguments_(arguments) {
    is_mapping_ =
        arguments.is(Kind::dict) || arguments.is(Kind::list) || arguments.is(Kind::range) || arguments.is_undefined();
  }

  Draft run() {
    Draft out = renderer_.new_draft();
    const std::string_view text = reader_.text;
    while (reader_.at < text.size()) {
      const std::size_t sign = text.find('%', reader_.at);
      out += text.substr(reader_.at, sign - reader_.at);
      if (sign == text.npos) break;
      reader_.at = sign + 1;
      out += field();
      renderer_.heap().check(out.size());
    }
    const std::size_t n_given = arguments_.is(Kind::tuple) ? arguments_.list->items.size() : 1;
    if (!is_mapping_ && n_used_ < n_given) throw type_error("not all arguments converted during string formatting");
    return out;
  }

 private:
  Value next_argument() {
    if (!key_value_.is_missing()) return key_value_;
    const bool is_tuple = arguments_.is(Kind::tuple);
    if (n_used_ >= (is_tuple ? arguments_.list->items.size() : 1)) {
      throw type_error("not enough arguments for format string");
    }
    ++n_used_;
    return is_tuple ? arguments_.list->items[n_used_ - 1] : arguments_;
  }

  /// Reads `(key)`.
  void read_key() {
    key_value_ = {};
    if (!reader_.take("(")) return;
    if (!is_mapping_) throw type_error("format requires a mapping");
    const std::size_t end = reader_.text.find(')', reader_.at);
    if (end == reader_.text.npos) throw value_error("incomplete format key");
    const std::string_view key = reader_.text.substr(reader_.at, end - reader_.at);
    reader_.at = end + 1;
    if (arguments_.is_undefined()) fail_undefined(arguments_);
    if (!arguments_.is(Kind::dict)) throw type_error("list indices must be integers or slices, not str");
    const Value* const found = arguments_.dict->find(key);
    if (found == nullptr) throw error("KeyError", "{}", repr_text(key));
    key_value_ = *found;
  }

  std::string field() {
    const std::size_t begin = reader_.at - 1;
    read_key();
    Field f;
    f.align = '>';
    for (bool is_left = false; reader_.is_any("-+ #0"); ++reader_.at) {
      const char flag = reader_.text[reader_.at];
      if (flag == '-') is_left = true, f.align = '<', f.fill = ' ';
      if (flag == '0' && !is_left) f.align = '=', f.fill = '0';
      if (flag == '+' || (flag == ' ' && f.sign != '+')) f.sign = flag;
      if (flag == '#') f.alternate = true;
    }
    f.width = reader_.number();
    if (reader_.take(".")) f.precision = reader_.precision();
    while (reader_.take("hlL")) {
    }
    if (reader_.at >= reader_.text.size()) throw value_error("incomplete format");
    f.type = reader_.text[reader_.at++];
    if (f.type == '%') return "%";
    return formatted(f, reader_.text.substr(begin, reader_.at - begin));
  }

  std::string formatted(Field& f, std::string_view source) {
    static constexpr std::string_view kSupported = "srdiuxXoefg", kKnown = "acEFG*";
    if (kSupported.find(f.type) == kSupported.npos) {
      if (kKnown.find(f.type) != kKnown.npos) refuse(source);
      throw value_error("unsupported format character in {}", repr_text(source));
    }
    const Value value = next_argument();
    if (f.type == 's' || f.type == 'r') {
      std::string text = f.type == 's' ? str(value) : repr(value);
      if (escapes_ && !(f.type == 's' && value.is_markup())) text = escaped(text);
      if (f.align == '=') f.align = '>', f.fill = ' ';
      return format_string(renderer_, text, f, '>');
    }
    if (value.is_undefined()) fail_undefined(value);
    const bool is_decimal = f.type == 'd' || f.type == 'i' || f.type == 'u';
    const bool needs_integer = f.type == 'x' || f.type == 'X' || f.type == 'o';
    if (!value.is_number() || (needs_integer && value.is(Kind::real))) {
      throw type_error("%{} format: {} is required, not {}", f.type, needs_integer ? "an integer" : "a real number",
                       type_name(value));
    }
    if (!is_decimal && !needs_integer) return format_real(renderer_, real(value.as_real()), f);
    if (f.precision >= 0) refuse(source);
    if (is_decimal) f.type = 'd', f.alternate = false;
    return format_integer(renderer_, value.is(Kind::real) ? truncated(value.real) : value, f);
  }

  Renderer& renderer_;
  bool escapes_;
  FieldReader reader_;
  Value arguments_;
  bool is_mapping_ = false;
  Value key_value_{};
  std::size_t n_used_ = 0;
};

class BraceFormat {
 public:
  BraceFormat(Renderer& renderer, const Value& text, const Arguments& arguments)
      : renderer_(renderer), text_(text.text()), escapes_(text.is_markup()), arguments_(arguments) {}

  Draft run() {
    Draft out = renderer_.new_draft();
    for (std::size_t at = 0; at < text_.size();) {
      const char c = text_[at];
      if ((c == '{' || c == '}') && text_.substr(at + 1, 1) == text_.substr(at, 1)) {
        out += text_.substr(at, 1);
        at += 2;
      } else if (c == '}') {
        throw value_error("Single '}}' encountered in format string");
      } else if (c == '{') {
        const std::size_t end = text_.find('}', at);
        if (at + 1 == text_.size()) throw value_error("Single '{{' encountered in format string");
        if (end == text_.npos) throw value_error("expected '}}' before end of string");
        out += field(text_.substr(at + 1, end - at - 1));
        at = end + 1;
      } else {
        const std::size_t end = std::min(text_.find_first_of("{}", at), text_.size());
        out += text_.substr(at, end - at);
        at = end;
      }
      renderer_.heap().check(out.size());
    }
    return out;
  }

 private:
  /// [name][!conversion][:specification], without the parts of values and the fields in fields that Python permits.
  std::string field(std::string_view whole) {
    const std::size_t end = std::min(whole.find_first_of(":!"), whole.size());
    if (whole.find_first_of("{") != whole.npos || whole.substr(0, end).find_first_of(".[") != whole.npos) {
      refuse(fmt::format("{{{}}}", whole));
    }
    Value value = value_of(whole.substr(0, end));
    std::string_view rest = whole.substr(end);
    if (rest.starts_with('!')) {
      const std::string_view conversion = rest.substr(0, 2);
      if (conversion != "!s" && conversion != "!r") refuse(fmt::format("{{{}}}", whole));
      value = renderer_.text(conversion == "!s" ? str(value) : repr(value));
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') throw value_error("expected ':' after conversion specifier");
    }
    if (!rest.empty()) rest.remove_prefix(1);
    if (!escapes_ || !value.is_markup()) {
      const std::string text = rest.empty() ? str(value) : formatted(value, rest);
      return escapes_ ? escaped(text) : text;
    }
    if (!rest.empty()) throw value_error("Unsupported format specification for Markup.");
    return std::string(value.text());
  }

  std::string formatted(const Value& value, std::string_view specification) const {
    if (!value.is_string() && !value.is_number()) {
      throw type_error("unsupported format string passed to {}.__format__", type_name(value));
    }
    const Field f = field_of(specification, value.is_string());
    if (!value.is_string()) {
      return value.is(Kind::real) ? format_real(renderer_, value, f) : format_integer(renderer_, value, f);
    }
    if (f.type != '\0' && f.type != 's') fail_type(f.type, value);
    if (f.sign != '-' || f.alternate || f.align == '=' || f.grouping) {
      throw value_error("expected a format of text, got {}", repr_text(specification));
    }
    return format_string(renderer_, value.text(), f, '<');
  }

  static Field field_of(std::string_view specification, bool is_text) {
    FieldReader reader{specification};
    const auto is_align = [&](std::size_t i) {
      return i < specification.size() && std::string_view("<>=^").find(specification[i]) != std::string_view::npos;
    };
    Field f;
    std::size_t after_fill = 0;
    const char32_t first = next_character(specification, after_fill);
    const bool has_fill = is_align(after_fill);
    if (has_fill) {
      f.fill = first;
      reader.at = after_fill;
    }
    if (is_align(reader.at)) f.align = specification[reader.at++];
    if (reader.is_any("+- ")) f.sign = specification[reader.at++];
    f.alternate = reader.take("#");
    if (reader.take("0")) {
      if (!has_fill) f.fill = '0';
      if (f.align == '\0') f.align = is_text ? '<' : '=';
    }
    f.width = reader.number();
    if (reader.is_any("_")) refuse(specification);
    f.grouping = reader.take(",");
    if (reader.take(".")) {
      if (!reader.is_any("0123456789")) throw value_error("Format specifier missing precision");
      f.precision = reader.precision();
    }
    if (reader.at < specification.size()) f.type = specification[reader.at++];
    if (reader.at < specification.size()) throw value_error("Invalid format specifier");
    return f;
  }

  Value value_of(std::string_view name) {
    const auto index = number_in<std::size_t>(name);
    if (name.empty() || index) {
      const char numbering = name.empty() ? 'a' : 'm';  // automatic or manual
      if (numbering_ != '\0' && numbering_ != numbering) {
        throw value_error("cannot switch from manual field specification to automatic field numbering");
      }
      numbering_ = numbering;
      const std::size_t i = index ? *index : next_++;
      if (i < arguments_.positional.size()) return arguments_.positional[i];
      throw error("IndexError", "Replacement index {} out of range for positional args tuple", i);
    }
    for (const NamedArgument& argument : arguments_.named) {
      if (argument.name == name) return argument.value;
    }
    throw error("KeyError", "{}", repr_text(name));
  }

  Renderer& renderer_;
  std::string_view text_;
  bool escapes_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
  char numbering_ = '\0';
};

}  // namespace

std::string real_digits(double value, char type, int precision) {
  if (!std::isfinite(value)) return std::string(std::isnan(value) ? "nan" : "inf") + (type == '%' ? "%" : "");
  if (type == '%') return real_digits(value * 100, 'f', precision) + "%";
  const auto form = type == 'e'   ? std::chars_format::scientific
                    : type == 'f' ? std::chars_format::fixed
                                  : std::chars_format::general;
  if (type == 'g' && precision == 0) precision = 1;
  std::string text(static_cast<std::size_t>(precision) + 400, '\0');
  char* const end = text.data() + text.size();
  text.resize(
      static_cast<std::size_t>(std::to_chars(text.data(), end, std::fabs(value), form, precision).ptr - text.data()));
  return text;
}

Value percent_format(Renderer& renderer, const Value& text, const Value& arguments) {
  return renderer.text(PercentFormat(renderer, text, arguments).run(), text.is_markup());
}

Value brace_format(Renderer& renderer, const Value& text, const Arguments& arguments) {
  return renderer.text(BraceFormat(renderer, text, arguments).run(), text.is_markup());
}

}  // namespace vitrine::jinja
