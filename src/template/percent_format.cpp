#include "template/percent_format.h"

#include <algorithm>
#include <cmath>

#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

struct Specifier {
  bool left = false, plus = false, space = false, alternate = false, zero = false;
  std::int64_t width = 0;
  int precision = -1;
  char type = 's';
};

class PercentFormat {
 public:
  PercentFormat(Renderer& renderer, const Value& text, const Value& arguments)
      : renderer_(renderer), text_(text.text()), escapes_(text.is_markup()), arguments_(arguments) {
    is_mapping_ =
        !arguments.is(Kind::tuple) && !arguments.is_string() &&
        (arguments.is(Kind::dict) || arguments.is(Kind::list) || arguments.is(Kind::range) || arguments.is_undefined());
  }

  Draft run() {
    Draft out = renderer_.new_draft();
    while (at_ < text_.size()) {
      const std::size_t sign = text_.find('%', at_);
      out += text_.substr(at_, sign - at_);
      if (sign == text_.npos) break;
      at_ = sign + 1;
      std::string field;
      append_field(field);
      out += field;
      renderer_.heap().check(out.size());
    }
    const std::size_t n_given = arguments_.is(Kind::tuple) ? arguments_.list->items.size() : 1;
    if (!is_mapping_ && n_used_ < n_given) throw type_error("not all arguments converted during string formatting");
    return out;
  }

 private:
  char take() {
    if (at_ >= text_.size()) throw value_error("incomplete format");
    return text_[at_++];
  }

  Value next_argument() {
    if (has_key_) return key_value_;
    if (arguments_.is(Kind::tuple)) {
      if (n_used_ < arguments_.list->items.size()) return arguments_.list->items[n_used_++];
    } else if (n_used_ == 0) {
      ++n_used_;
      return arguments_;
    }
    throw type_error("not enough arguments for format string");
  }

  void read_key() {
    has_key_ = at_ < text_.size() && text_[at_] == '(';
    if (!has_key_) return;
    if (!is_mapping_) throw type_error("format requires a mapping");
    const std::size_t begin = ++at_;
    for (int depth = 1; depth > 0; ++at_) {
      if (at_ >= text_.size()) throw value_error("incomplete format key");
      depth += (text_[at_] == '(') - (text_[at_] == ')');
    }
    const std::string_view key = text_.substr(begin, at_ - 1 - begin);
    if (arguments_.is_undefined()) fail_undefined(arguments_);
    if (!arguments_.is(Kind::dict)) throw type_error("list indices must be integers or slices, not str");
    const Value* const found = arguments_.dict->find(key);
    if (found == nullptr) throw error("KeyError", "{}", repr_text(key));
    key_value_ = *found;
  }

  std::int64_t read_number() {
    if (at_ < text_.size() && text_[at_] == '*') {
      ++at_;
      const Value width = next_argument();
      if (!width.is_integer()) throw type_error("* wants int");
      return width.as_integer();
    }
    std::int64_t number = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      number = std::min<std::int64_t>(number * 10 + (text_[at_++] - '0'), INT32_MAX);
    }
    return number;
  }

  void append_field(std::string& out) {
    read_key();
    Specifier s;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '-')
        s.left = true;
      else if (c == '+')
        s.plus = true;
      else if (c == ' ')
        s.space = true;
      else if (c == '#')
        s.alternate = true;
      else if (c == '0')
        s.zero = true;
      else
        break;
    }
    s.width = read_number();
    if (s.width < 0) {
      s.left = true;
      s.width = -s.width;
    }
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      s.precision = static_cast<int>(std::clamp<std::int64_t>(read_number(), 0, INT32_MAX));
    }
    while (at_ < text_.size() && std::string_view("hlL").find(text_[at_]) != std::string_view::npos) ++at_;
    s.type = take();
    if (s.type == '%') {
      out += '%';
      return;
    }
    append_value(out, s);
  }

  void append_value(std::string& out, const Specifier& s) {
    switch (s.type) {
      case 's':
      case 'r':
      case 'a':
        return append_text(out, s, text_of(next_argument(), s.type));
      case 'c':
        return append_text(out, s, character(next_argument()));
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return append_integer(out, s, next_argument());
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return append_real(out, s, next_argument());
      default: {
        std::size_t at = at_ - 1;
        const char32_t c = next_character(text_, at);
        std::string character;
        append_character(character, c >= 0x20 && c < 0x7F ? c : U'?');
        throw value_error("unsupported format character '{}' (0x{:x}) at index {}", character, static_cast<unsigned>(c),
                          count_characters(text_.substr(0, at_ - 1)));
      }
    }
  }

  std::string text_of(const Value& value, char type) const {
    std::string text = type == 's' ? str(value) : repr(value);
    if (type == 'a') text = ascii_only(text);
    return escapes_ && !(type == 's' && value.is_markup()) ? escaped(text) : text;
  }

  static std::string character(const Value& value) {
    std::string text;
    if (value.is_integer()) {
      if (value.as_integer() < 0 || value.as_integer() > 0x10FFFF) {
        throw error("OverflowError", "%c arg not in range(0x110000)");
      }
      append_character(text, static_cast<char32_t>(value.as_integer()));
    } else if (value.is_string() && count_characters(value.text()) == 1) {
      text = value.text();
    } else {
      throw type_error("%c requires int or char");
    }
    return text;
  }

  void append_text(std::string& out, const Specifier& s, std::string_view text) const {
    if (s.precision >= 0) text = characters(text, 0, s.precision);
    append_padded(out, s, "", text, ' ');
  }

  void append_padded(std::string& out, const Specifier& s, std::string_view sign, std::string_view text,
                     char fill) const {
    const std::int64_t size = count_characters(text) + static_cast<std::int64_t>(sign.size());
    const auto n_fill = static_cast<std::size_t>(std::max<std::int64_t>(s.width - size, 0));
    renderer_.heap().check(n_fill);
    if (!s.left && fill == ' ') out.append(n_fill, ' ');
    out += sign;
    if (!s.left && fill == '0') out.append(n_fill, '0');
    out += text;
    if (s.left) out.append(n_fill, ' ');
  }

  static std::string_view sign_of(const Specifier& s, bool is_negative) {
    return is_negative ? "-" : s.plus ? "+" : s.space ? " " : "";
  }

  void append_integer(std::string& out, const Specifier& s, const Value& value) const {
    const bool is_decimal = s.type == 'd' || s.type == 'i' || s.type == 'u';
    if (value.is_undefined()) fail_undefined(value);
    if (!value.is_number() || (!is_decimal && value.is(Kind::real))) {
      throw type_error("%{} format: {} is required, not {}", s.type, is_decimal ? "a real number" : "an integer",
                       type_name(value));
    }
    std::int64_t number = value.is(Kind::real) ? 0 : value.as_integer();
    if (value.is(Kind::real)) {
      if (std::isnan(value.real)) throw value_error("cannot convert float NaN to integer");
      if (std::isinf(value.real)) throw error("OverflowError", "cannot convert float infinity to integer");
      if (std::fabs(value.real) >= 9.2e18) throw error("unsupported", "an integer does not fit 64 bits");
      number = static_cast<std::int64_t>(value.real);
    }
    std::string digits = integer_digits(number, is_decimal ? 'd' : s.type);
    if (s.precision > static_cast<int>(digits.size())) {
      renderer_.heap().check(static_cast<std::size_t>(s.precision));
      digits.insert(0, static_cast<std::size_t>(s.precision) - digits.size(), '0');
    }
    std::string sign(sign_of(s, number < 0));
    if (s.alternate && !is_decimal) sign += std::string("0") + s.type;
    append_padded(out, s, sign, digits, s.zero && !s.left ? '0' : ' ');
  }

  void append_real(std::string& out, const Specifier& s, const Value& value) const {
    if (value.is_undefined()) fail_undefined(value);
    if (!value.is_number()) throw type_error("must be real number, not {}", type_name(value));
    const double number = value.as_real();
    renderer_.heap().check(static_cast<std::size_t>(std::max(s.precision, 0)));
    const std::string digits = real_digits(std::fabs(number), s.type, s.precision < 0 ? 6 : s.precision, s.alternate);
    append_padded(out, s, sign_of(s, std::signbit(number) && !std::isnan(number)), digits,
                  s.zero && !s.left && std::isfinite(number) ? '0'
                  : s.zero && !s.left                        ? '0'
                                                             : ' ');
  }

  Renderer& renderer_;
  std::string_view text_;
  bool escapes_;
  Value arguments_;
  bool is_mapping_ = false, has_key_ = false;
  Value key_value_{};
  std::size_t at_ = 0, n_used_ = 0;
};

}  // namespace

std::string ascii_only(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    const auto code = static_cast<unsigned>(c);
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", code);
    } else {
      out += c < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
    }
  }
  return out;
}

Value percent_format(Renderer& renderer, const Value& text, const Value& arguments) {
  return renderer.text(PercentFormat(renderer, text, arguments).run(), text.is_markup());
}

}  // namespace vitrine::jinja
