#include "template/format.h"

#include <charconv>
#include <cmath>

#include "template/callable.h"
#include "template/objects.h"
#include "template/text.h"
#include "template/unicode_tables.h"

namespace vitrine::jinja {
namespace {

void append_items(std::string& out, const std::pmr::vector<Value>& items) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, items[i]);
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

void append_view(std::string& out, const View& view) {
  out += view.what == View::What::keys     ? "dict_keys(["
         : view.what == View::What::values ? "dict_values(["
                                           : "dict_items([";
  for (std::size_t i = 0; i < view.dict->entries.size(); ++i) {
    const Dict::Entry& entry = view.dict->entries[i];
    if (i > 0) out += ", ";
    if (view.what == View::What::items) out += '(';
    if (view.what != View::What::values) append_repr(out, entry.key);
    if (view.what == View::What::items) out += ", ";
    if (view.what != View::What::keys) append_repr(out, entry.value);
    if (view.what == View::What::items) out += ')';
  }
  out += "])";
}

void append_escape(std::string& out, char32_t c) {
  const auto code = static_cast<unsigned>(c);
  if (code < 0x100) {
    out += fmt::format("\\x{:02x}", code);
  } else if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += fmt::format("\\U{:08x}", code);
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

std::string repr_text(std::string_view text) {
  const bool double_quotes = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x80 ? c < 0x20 || c == 0x7F : !has_property(c, kPrintable)) {
      append_escape(out, c);
    } else {
      append_character(out, c);
    }
  }
  out += quote;
  return out;
}

void append_str(std::string& out, const Value& value) {
  switch (value.kind) {
    case Kind::string:
      out += value.text();
      return;
    case Kind::undefined:
      return;
    default:
      return append_repr(out, value);
  }
}

void append_repr(std::string& out, const Value& value) {
  const Depth depth;
  switch (value.kind) {
    case Kind::missing:
      out += "missing";
      return;
    case Kind::undefined:
      out += "Undefined";
      return;
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
      if (value.is_markup()) out += "Markup(";
      out += repr_text(value.text());
      if (value.is_markup()) out += ')';
      return;
    case Kind::list:
      out += '[';
      append_items(out, value.list->items);
      out += ']';
      return;
    case Kind::tuple:
      out += '(';
      append_items(out, value.list->items);
      out += value.list->items.size() == 1 ? ",)" : ")";
      return;
    case Kind::dict:
      return append_dict(out, *value.dict);
    case Kind::range:
      out += fmt::format("range({}, {}", value.range->start, value.range->stop);
      if (value.range->step != 1) out += fmt::format(", {}", value.range->step);
      out += ')';
      return;
    case Kind::view:
      return append_view(out, *value.view);
    case Kind::iterator:
      out += fmt::format("<{} object>", value.iterator->type_name());
      return;
    case Kind::callable:
      out += value.callable->repr();
      return;
    case Kind::object:
      out += value.object->repr();
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
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace vitrine::jinja
