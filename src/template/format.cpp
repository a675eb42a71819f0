#include "template/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "template/objects.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

void append_items(std::string& out, std::string_view open, const List& list, std::string_view close) {
  out += open;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, list.items[i]);
  }
  out += close;
}

void append_escape(std::string& out, char32_t c) {
  static constexpr std::string_view kFrom = "\n\r\t", kTo = "nrt";
  const auto code = static_cast<unsigned>(c);
  const std::size_t simple = c < 0x80 ? kFrom.find(static_cast<char>(c)) : kFrom.npos;
  if (simple != kFrom.npos) {
    (out += '\\') += kTo[simple];
  } else {
    out += c < 0x100     ? fmt::format("\\x{:02x}", code)
           : c < 0x10000 ? fmt::format("\\u{:04x}", code)
                         : fmt::format("\\U{:08x}", code);
  }
}

}  // namespace

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific).ptr;
  const std::string_view scientific(digits, static_cast<std::size_t>(end - digits));
  int exponent = 0;
  const std::string_view power = scientific.substr(scientific.find('e') + 1);
  std::from_chars(power.data() + (power[0] == '+'), power.data() + power.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  char fixed[64];
  const auto fixed_end = std::to_chars(fixed, fixed + sizeof fixed, value, std::chars_format::fixed).ptr;
  std::string text(fixed, fixed_end);
  if (text.find('.') == text.npos) text += ".0";
  return text;
}

std::optional<double> parse_real(std::string_view digits) {
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc()) return value;
  const double magnitude = digits.find("e-") != digits.npos || digits.find("E-") != digits.npos ? 0 : HUGE_VAL;
  return digits.starts_with('-') ? -magnitude : magnitude;
}

std::string repr_text(std::string_view text) {
  const bool double_quotes = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      (out += '\\') += static_cast<char>(c);
    } else if (c >= 0x20 && c < 0x7F) {
      out += static_cast<char>(c);
    } else if (is_printable(c)) {
      append_character(out, c);
    } else {
      append_escape(out, c);
    }
  }
  return out += quote;
}

void append_str(std::string& out, const Value& value) {
  if (value.is_string()) {
    out += value.text();
  } else if (!value.is_undefined()) {
    append_repr(out, value);
  }
}

void append_dict(std::string& out, const Dict& dict) {
  out += '{';
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, dict.entries[i].key);
    out += ": ";
    append_repr(out, dict.entries[i].value);
  }
  out += '}';
}

void append_repr(std::string& out, const Value& value) {
  const Depth depth;
  switch (value.kind) {
    case Kind::none:
      out += "None";
      return;
    case Kind::boolean:
      out += value.boolean ? "True" : "False";
      return;
    case Kind::integer:
      out += fmt::format_int(value.integer).c_str();
      return;
    case Kind::real:
      out += real_text(value.real);
      return;
    case Kind::string:
      out += value.is_markup() ? fmt::format("Markup({})", repr_text(value.text())) : repr_text(value.text());
      return;
    case Kind::list:
      return append_items(out, "[", *value.list, "]");
    case Kind::tuple:
      return append_items(out, "(", *value.list, value.list->items.size() == 1 ? ",)" : ")");
    case Kind::range:
      out += value.list->label;
      return;
    case Kind::view:
      out += value.list->label;
      return append_items(out, "([", *value.list, "])");
    case Kind::dict:
      return append_dict(out, *value.dict);
    case Kind::object:
      out += value.object->repr();
      return;
    default:
      out += value.is_undefined() ? "Undefined" : fmt::format("<{} object>", type_name(value));
      return;
  }
}

std::string str(const Value& value) {
  std::string out;
  append_str(out, value);
  return out;
}

std::string repr(const Value& value) {
  std::string out;
  append_repr(out, value);
  return out;
}

std::string escaped(std::string_view text) {
  static constexpr std::pair<char, std::string_view> kEscapes[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto* const escape =
        std::find_if(std::begin(kEscapes), std::end(kEscapes), [c](auto& e) { return e.first == c; });
    if (escape == std::end(kEscapes)) {
      out += c;
    } else {
      out += escape->second;
    }
  }
  return out;
}

}  // namespace vitrine::jinja
