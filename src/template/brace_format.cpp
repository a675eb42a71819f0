// str.format(), and the format specifications of Python's format().
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "template/format.h"
#include "template/percent_format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

/// [[fill]align][sign][z][#][0][width][grouping][.precision][type]
struct Specification {
  char32_t fill = ' ';
  char align = '\0', sign = '-', grouping = '\0', type = '\0';
  bool alternate = false, zero = false;
  std::int64_t width = 0;
  int precision = -1;
};

class SpecificationParser {
 public:
  SpecificationParser(std::string_view text, std::string_view type) : text_(text), type_(type) {}

  Specification run() {
    Specification s;
    std::size_t after_fill = 0;
    if (!text_.empty()) {
      const char32_t first = next_character(text_, after_fill);
      if (after_fill < text_.size() && is_align(text_[after_fill])) {
        s.fill = first;
        s.align = text_[after_fill];
        at_ = after_fill + 1;
      } else if (is_align(text_[0])) {
        s.align = text_[at_++];
      }
    }
    if (is_any("+- ")) s.sign = text_[at_++];
    if (is_any("#")) s.alternate = (++at_, true);
    if (is_any("0")) {
      s.zero = true;
      ++at_;
      if (s.align == '\0') {
        s.align = type_ == "str" ? '<' : '=';
        s.fill = '0';
      } else if (after_fill == 0 || s.fill == ' ') {
        s.fill = s.fill == ' ' && text_[0] != ' ' ? U'0' : s.fill;
      }
    }
    s.width = number();
    if (is_any(",_")) s.grouping = text_[at_++];
    if (is_any(".")) {
      ++at_;
      if (at_ >= text_.size() || text_[at_] < '0' || text_[at_] > '9')
        throw value_error("Format specifier missing precision");
      s.precision = static_cast<int>(number());
    }
    if (at_ < text_.size()) s.type = text_[at_++];
    if (at_ < text_.size()) throw value_error("Invalid format specifier");
    return s;
  }

 private:
  static bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }
  bool is_any(std::string_view set) const { return at_ < text_.size() && set.find(text_[at_]) != set.npos; }
  std::int64_t number() {
    std::int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = std::min<std::int64_t>(value * 10 + (text_[at_++] - '0'), INT32_MAX);
    }
    return value;
  }

  std::string_view text_, type_;
  std::size_t at_ = 0;
};

std::string padded(Renderer& renderer, const Specification& s, std::string sign, std::string digits, char by_default) {
  const char align = s.align == '\0' ? by_default : s.align;
  const std::int64_t size = count_characters(digits) + static_cast<std::int64_t>(sign.size());
  const auto n_fill = static_cast<std::size_t>(std::max<std::int64_t>(s.width - size, 0));
  renderer.heap().check(n_fill * 4);
  const auto fill = [&](std::size_t n) {
    std::string text;
    for (std::size_t i = 0; i < n; ++i) append_character(text, s.fill);
    return text;
  };
  switch (align) {
    case '<':
      return sign + digits + fill(n_fill);
    case '^':
      return fill(n_fill / 2) + sign + digits + fill(n_fill - n_fill / 2);
    case '=':
      return sign + fill(n_fill) + digits;
    default:
      return fill(n_fill) + sign + digits;
  }
}

/// Puts separators between the digits before the point. With zeros as fill, the zeros are grouped too.
std::string grouped(std::string digits, const Specification& s, std::size_t sign_size) {
  if (s.grouping == '\0') return digits;
  const std::size_t size = s.type == 'x' || s.type == 'X' || s.type == 'b' || s.type == 'o' ? 4 : 3;
  std::size_t whole = digits.find_first_not_of("0123456789abcdefABCDEF");
  if (size == 3) whole = digits.find_first_not_of("0123456789");
  if (whole == digits.npos) whole = digits.size();
  std::string front = digits.substr(0, whole);
  const std::string back = digits.substr(whole);
  const auto separated = [&](const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i > 0 && (text.size() - i) % size == 0) out += s.grouping;
      out += text[i];
    }
    return out;
  };
  std::string out = separated(front);
  while (s.fill == '0' && s.align == '=' &&
         static_cast<std::int64_t>(out.size() + back.size() + sign_size) < std::min<std::int64_t>(s.width, 4096)) {
    front.insert(0, 1, '0');
    out = separated(front);
  }
  return out + back;
}

std::string sign_text(const Specification& s, bool is_negative) {
  return is_negative ? "-" : s.sign == '+' ? "+" : s.sign == ' ' ? " " : "";
}

[[noreturn]] void fail_type(char type, const Value& value) {
  throw value_error("Unknown format code '{}' for object of type '{}'", type, type_name(value));
}

std::string format_real(Renderer& renderer, const Value& value, const Specification& s) {
  const double number = value.as_real();
  const double magnitude = std::fabs(number);
  renderer.heap().check(static_cast<std::size_t>(std::max(s.precision, 0)));
  std::string digits;
  if (s.type == '\0') {
    if (s.precision < 0) {
      digits = real_text(magnitude);
    } else {  // like g, but with a fixed form up to the precision and a digit after the point
      digits = real_digits(magnitude, 'g', std::max(s.precision, 1), false);
      if (digits.find_first_of(".en") == digits.npos) {
        digits = static_cast<int>(digits.size()) >= std::max(s.precision, 1) && std::isfinite(number)
                     ? real_digits(magnitude, 'e', std::max(s.precision, 1) - 1, false)
                     : digits + ".0";
        const std::size_t e = digits.find('e');
        if (e != digits.npos && digits.find('.') != digits.npos) {
          std::string mantissa = digits.substr(0, e);
          while (mantissa.back() == '0') mantissa.pop_back();
          if (mantissa.back() == '.') mantissa.pop_back();
          digits = mantissa + digits.substr(e);
        }
      }
    }
  } else if (std::string_view("eEfFgG%n").find(s.type) != std::string_view::npos) {
    digits = real_digits(magnitude, s.type == 'n' ? 'g' : s.type, s.precision < 0 ? 6 : s.precision, s.alternate);
  } else {
    fail_type(s.type, value);
  }
  const std::string sign = sign_text(s, std::signbit(number) && !std::isnan(number));
  return padded(renderer, s, sign, grouped(digits, s, sign.size()), '>');
}

std::string format_integer(Renderer& renderer, const Value& value, const Specification& s) {
  const std::int64_t number = value.as_integer();
  if (std::string_view("eEfFgG%").find(s.type) != std::string_view::npos && s.type != '\0') {
    return format_real(renderer, real(value.as_real()), s);
  }
  if (s.precision >= 0) throw value_error("Precision not allowed in integer format specifier");
  if (s.type == 'c') {
    if (s.sign != '-') throw value_error("Sign not allowed with integer format specifier 'c'");
    if (number < 0 || number > 0x10FFFF) throw error("OverflowError", "%c arg not in range(0x110000)");
    std::string character;
    append_character(character, static_cast<char32_t>(number));
    return padded(renderer, s, "", character, '<');
  }
  if (s.type != '\0' && std::string_view("bdnoxX").find(s.type) == std::string_view::npos) fail_type(s.type, value);
  if (s.grouping == ',' && s.type != '\0' && s.type != 'd') {
    throw value_error("Cannot specify ',' with '{}'.", s.type);
  }
  std::string sign = sign_text(s, number < 0);
  const char type = s.type == '\0' || s.type == 'n' ? 'd' : s.type;
  if (s.alternate && type != 'd') sign += std::string("0") + type;
  return padded(renderer, s, sign, grouped(integer_digits(number, type), s, sign.size()), '>');
}

std::string format_string(Renderer& renderer, const Value& value, const Specification& s) {
  if (s.type != '\0' && s.type != 's') fail_type(s.type, value);
  if (s.sign != '-') throw value_error("Sign not allowed in string format specifier");
  if (s.alternate) throw value_error("Alternate form (#) not allowed in string format specifier");
  if (s.align == '=') throw value_error("'=' alignment not allowed in string format specifier");
  if (s.grouping != '\0') throw value_error("Cannot specify '{}' with 's'.", s.grouping);
  const std::string_view text = s.precision < 0 ? value.text() : characters(value.text(), 0, s.precision);
  return padded(renderer, s, "", std::string(text), '<');
}

class BraceFormat {
 public:
  BraceFormat(Renderer& renderer, const Value& text, const Arguments& arguments, const Value& mapping)
      : renderer_(renderer), escapes_(text.is_markup()), arguments_(arguments), mapping_(mapping) {}

  Draft run(std::string_view text, int depth = 2) {
    if (depth < 0) throw value_error("Max string recursion exceeded");
    Draft out = renderer_.new_draft();
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at];
      const bool is_doubled = at + 1 < text.size() && text[at + 1] == c;
      if ((c == '{' || c == '}') && is_doubled) {
        out += text.substr(at, 1);
        at += 2;
      } else if (c == '}') {
        throw value_error("Single '}}' encountered in format string");
      } else if (c == '{') {
        out += field(text, ++at, depth);
      } else {
        const std::size_t end = std::min(text.find_first_of("{}", at), text.size());
        out += text.substr(at, end - at);
        at = end;
      }
      renderer_.heap().check(out.size());
    }
    return out;
  }

 private:
  /// Formats the field that begins at `at`; moves `at` past its brace.
  std::string field(std::string_view text, std::size_t& at, int depth) {
    const std::size_t begin = at;
    if (at >= text.size()) throw value_error("Single '{{' encountered in format string");
    int open = 1;
    bool in_brackets = false;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      if (in_brackets) continue;
      if (c == '{') ++open;
      if (c == '}' && --open == 0) break;
    }
    if (open > 0) throw value_error("expected '}}' before end of string");
    const std::string_view whole = text.substr(begin, at - begin);
    ++at;
    std::size_t end = 0;
    for (bool inside = false; end < whole.size(); ++end) {
      if (whole[end] == '[') inside = true;
      if (whole[end] == ']') inside = false;
      if (!inside && (whole[end] == ':' || whole[end] == '!')) break;
      if (whole[end] == '{') throw value_error("unexpected '{{' in field name");
    }
    const std::string_view name = whole.substr(0, end);
    char conversion = '\0';
    std::string_view rest = whole.substr(end);
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2) throw value_error("end of string while looking for conversion specifier");
      conversion = rest[1];
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') throw value_error("expected ':' after conversion specifier");
    }
    if (!rest.empty()) rest.remove_prefix(1);
    const Value value = converted(value_of(name), conversion);
    const std::string specification = run(rest, depth - 1).take();
    return formatted(value, specification);
  }

  std::string formatted(const Value& value, const std::string& specification) const {
    if (!escapes_) return format_value(renderer_, value, specification);
    if (!value.is_markup()) return escaped(format_value(renderer_, value, specification));
    if (!specification.empty()) throw value_error("Unsupported format specification for Markup.");
    return std::string(value.text());
  }

  Value converted(const Value& value, char conversion) {
    switch (conversion) {
      case '\0':
        return value;
      case 's':
        return renderer_.text(str(value));
      case 'r':
        return renderer_.text(repr(value));
      case 'a':
        return renderer_.text(ascii_only(repr(value)));
      default:
        throw value_error("Unknown conversion specifier {}", conversion);
    }
  }

  static std::optional<std::int64_t> index_in(std::string_view text) {
    std::int64_t index = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), index);
    if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size() || text[0] == '-')
      return {};
    return index;
  }

  Value positional(std::int64_t index) const {
    if (index >= static_cast<std::int64_t>(arguments_.positional.size())) {
      throw error("IndexError", "Replacement index {} out of range for positional args tuple", index);
    }
    return arguments_.positional[static_cast<std::size_t>(index)];
  }

  Value first_value(std::string_view first) {
    if (first.empty()) {
      if (is_manual_) {
        throw value_error("cannot switch from manual field specification to automatic field numbering");
      }
      is_automatic_ = true;
      return positional(next_++);
    }
    if (const auto index = index_in(first)) {
      if (is_automatic_) {
        throw value_error("cannot switch from manual field specification to automatic field numbering");
      }
      is_manual_ = true;
      return positional(*index);
    }
    if (!mapping_.is_missing()) {
      const Value* const found = mapping_.is(Kind::dict) ? mapping_.dict->find(first) : nullptr;
      if (found != nullptr) return *found;
    }
    for (const NamedArgument& argument : arguments_.named) {
      if (argument.name == first) return argument.value;
    }
    throw error("KeyError", "{}", repr_text(first));
  }

  Value value_of(std::string_view name) {
    std::size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = first_value(name.substr(0, at));
    while (at < name.size()) {
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) throw value_error("Empty attribute in format string");
        value = renderer_.attribute(value, renderer_.text(name.substr(at + 1, end - at - 1)));
        at = end;
      } else if (name[at] == '[') {
        const std::size_t end = name.find(']', at);
        if (end == name.npos) throw value_error("Missing ']' in format string");
        const std::string_view key = name.substr(at + 1, end - at - 1);
        if (key.empty()) throw value_error("Empty attribute in format string");
        const auto index = index_in(key);
        value = renderer_.item(value, index ? integer(*index) : renderer_.text(key));
        at = end + 1;
      } else {
        throw value_error("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Renderer& renderer_;
  bool escapes_;
  const Arguments& arguments_;
  Value mapping_;
  std::int64_t next_ = 0;
  bool is_automatic_ = false, is_manual_ = false;
};

}  // namespace

std::string real_digits(double value, char type, int precision, bool alternate) {
  const bool is_capital = type == 'E' || type == 'F' || type == 'G';
  if (std::isnan(value)) return std::string(is_capital ? "NAN" : "nan") + (type == '%' ? "%" : "");
  if (std::isinf(value)) return std::string(is_capital ? "INF" : "inf") + (type == '%' ? "%" : "");
  if (type == '%') return real_digits(value * 100, 'f', precision, alternate) + "%";
  const char small = static_cast<char>(type | 0x20);
  const auto form = small == 'e'   ? std::chars_format::scientific
                    : small == 'f' ? std::chars_format::fixed
                                   : std::chars_format::general;
  if (small == 'g' && precision == 0) precision = 1;
  std::string text(static_cast<std::size_t>(std::min(precision, 1100)) + 400, '\0');
  const int exact = std::min(precision, 1100);  // later digits of a double are zeros
  text.resize(static_cast<std::size_t>(std::to_chars(text.data(), text.data() + text.size(), value, form, exact).ptr -
                                       text.data()));
  if (small == 'f') text.append(static_cast<std::size_t>(precision - exact), '0');
  if (alternate && precision == 0 && small != 'g') text.insert(std::min(text.find('e'), text.size()), 1, '.');
  if (is_capital) std::replace(text.begin(), text.end(), 'e', 'E');
  return text;
}

std::string integer_digits(std::int64_t value, char type) {
  const std::uint64_t magnitude = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  switch (type) {
    case 'b':
      return fmt::format("{:b}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

std::string format_value(Renderer& renderer, const Value& value, std::string_view specification) {
  if (specification.empty()) return str(value);
  if (!value.is_string() && !value.is_number()) {
    throw type_error("unsupported format string passed to {}.__format__", type_name(value));
  }
  const Specification s = SpecificationParser(specification, type_name(value)).run();
  if (value.is_string()) return format_string(renderer, value, s);
  return value.is(Kind::real) ? format_real(renderer, value, s) : format_integer(renderer, value, s);
}

Value brace_format(Renderer& renderer, const Value& text, const Arguments& arguments, const Value& mapping) {
  return renderer.text(BraceFormat(renderer, text, arguments, mapping).run(text.text()), text.is_markup());
}

}  // namespace vitrine::jinja
