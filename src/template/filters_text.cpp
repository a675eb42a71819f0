// Filters of text.
#include <algorithm>
#include <cmath>

#include "template/builtins.h"
#include "template/format.h"
#include "template/percent_format.h"
#include "template/text.h"
#include "template/wrap.h"

namespace vitrine::jinja {
namespace {

/// Text made from `like`: Markup if that is.
Value made_from(Renderer& renderer, const Value& like, std::string_view text) {
  return renderer.text(text, like.is_markup());
}

template <class Change>
Value changed(Renderer& renderer, const Arguments& arguments, const char* name, Change change) {
  const auto [s] = arguments.bind<1>(name, {"s"}, 1);
  const Value text = soft_string(renderer, s);
  return made_from(renderer, text, change(text.text()));
}

/// A string that a method of str is called on. Throws TemplateError for other values.
const Value& need_text(const Value& value, const char* method) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_string()) throw error("AttributeError", "'{}' object has no attribute '{}'", type_name(value), method);
  return value;
}

}  // namespace

Value soft_string(Renderer& renderer, const Value& value) {
  return value.is_string() ? value : renderer.part(renderer.str_of(value));
}

Value filter_capitalize(Renderer& r, Arguments& a) { return changed(r, a, "do_capitalize", capitalize); }
Value filter_lower(Renderer& r, Arguments& a) { return changed(r, a, "do_lower", lower); }
Value filter_upper(Renderer& r, Arguments& a) { return changed(r, a, "do_upper", upper); }

Value filter_title(Renderer& r, Arguments& a) {
  const auto [s] = a.bind<1>("do_title", {"s"}, 1);
  const auto is_between = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  const std::string_view text = r.str_of(s);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    std::size_t end = at;
    const bool between = is_between(next_character(text, end));
    at = end;
    while (at < text.size()) {
      std::size_t next = at;
      if (is_between(next_character(text, next)) != between) break;
      at = next;
    }
    out += upper(text.substr(begin, end - begin));
    out += lower(text.substr(end, at - end));
  }
  return r.text(out);
}

Value filter_center(Renderer& r, Arguments& a) {
  const auto [value, width] = a.bind<2>("do_center", {"value", "width"}, 1);
  const Value text = soft_string(r, value);
  const std::int64_t columns = width.is_missing() ? 80 : to_index(width), size = r.length(text);
  if (columns <= size) return text;
  r.heap().check(static_cast<std::size_t>(columns));
  const std::int64_t fill = columns - size, left = fill / 2 + (fill & columns & 1);
  return made_from(r, text,
                   std::string(static_cast<std::size_t>(left), ' ') + std::string(text.text()) +
                       std::string(static_cast<std::size_t>(fill - left), ' '));
}

Value filter_escape(Renderer& r, Arguments& a) {
  const auto [s] = a.bind<1>("escape", {"s"}, 1);
  return s.is_markup() ? s : r.text(escaped(r.str_of(s)), true);
}
Value filter_forceescape(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("do_forceescape", {"value"}, 1);
  return r.text(escaped(r.str_of(value)), true);
}
Value filter_safe(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("do_mark_safe", {"value"}, 1);
  return r.part(r.str_of(value), true);
}
Value filter_string(Renderer& r, Arguments& a) {
  const auto [s] = a.bind<1>("soft_str", {"s"}, 1);
  return soft_string(r, s);
}

Value filter_striptags(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("do_striptags", {"value"}, 1);
  return r.text(without_tags(r.str_of(value)));
}

Value filter_format(Renderer& r, Arguments& a) {
  const Value text = soft_string(r, a.positional[0]);
  if (a.positional.size() > 1 && !a.named.empty()) {
    throw error("runtime", "can't handle positional and keyword arguments at the same time");
  }
  if (a.named.empty()) return percent_format(r, text, r.new_tuple({a.positional.begin() + 1, a.positional.end()}));
  Dict* const named = r.heap().make<Dict>(r.heap());
  for (const NamedArgument& argument : a.named) named->set(r.text(argument.name), argument.value);
  return percent_format(r, text, dict(named));
}

Value filter_indent(Renderer& r, Arguments& a) {
  const auto [s, width, first, blank] = a.bind<4>("do_indent", {"s", "width", "first", "blank"}, 1);
  std::string indention(width.is_string() ? width.text() : "");
  if (!width.is_string()) {
    const std::int64_t n = width.is_missing() ? 4 : width.is_integer() ? width.as_integer() : -1;
    if (!width.is_missing() && !width.is_integer()) {
      if (width.is_undefined()) fail_undefined(width);
      throw type_error("can't multiply sequence by non-int of type '{}'", type_name(width));
    }
    r.heap().check(static_cast<std::size_t>(std::max<std::int64_t>(n, 0)));
    indention.assign(static_cast<std::size_t>(std::max<std::int64_t>(n, 0)), ' ');
  }
  if (s.is_markup() && !width.is_markup()) indention = escaped(indention);
  if (s.is_undefined()) fail_undefined(s);
  if (s.is(Kind::list)) need_text(s, "splitlines");  // Python's += adds the characters to the list
  if (s.is(Kind::tuple)) throw type_error("can only concatenate tuple (not \"str\") to tuple");
  if (!s.is_string()) throw type_error("unsupported operand type(s) for +=: '{}' and 'str'", type_name(s));
  const std::string text = std::string(s.text()) + "\n";
  const std::vector<std::string_view> lines = split_lines(text);
  r.heap().check(text.size() + indention.size() * lines.size());
  std::string out = is_true(first) ? indention : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (is_true(blank) || !lines[i].empty())) out += indention;
    out += lines[i];
  }
  return made_from(r, s, out);
}

Value filter_replace(Renderer& r, Arguments& a) {
  const auto [s, old, made, count] = a.bind<4>("do_replace", {"s", "old", "new", "count"}, 3);
  Value text = r.part(r.str_of(s)), from = r.part(r.str_of(old)), to = r.part(r.str_of(made));
  if (r.autoescape()) {
    text = soft_string(r, s);
    if ((old.is_markup() || made.is_markup()) && !s.is_markup()) text = r.text(escaped(text.text()), true);
    to = soft_string(r, made);
  }
  bool is_unsafe = false;
  Arguments call;
  call.positional = {text, from, to, count.is_missing() || count.is_none() ? integer(-1) : count};
  return find_method(text, "replace", is_unsafe)(r, call);
}

Value filter_trim(Renderer& r, Arguments& a) {
  const auto [value, chars] = a.bind<2>("do_trim", {"value", "chars"}, 1);
  const Value text = soft_string(r, value);
  if (chars.is_missing() || chars.is_none()) return r.part(strip(text.text(), true, true), text.is_markup());
  if (!chars.is_string()) throw type_error("strip arg must be None or str");
  const std::string_view removed = chars.text();
  return r.part(strip(text.text(), true, true, &removed), text.is_markup());
}

Value filter_truncate(Renderer& r, Arguments& a) {
  const auto [s, length, killwords, end, leeway] =
      a.bind<5>("do_truncate", {"s", "length", "killwords", "end", "leeway"}, 1);
  const std::int64_t limit = length.is_missing() ? 255 : to_index(length);
  const std::int64_t slack = leeway.is_missing() || leeway.is_none() ? 5 : to_index(leeway);
  const Value mark = end.is_missing() ? r.part("...") : need_text(end, "len");
  const std::int64_t mark_size = r.length(mark);
  if (limit < mark_size) throw error("AssertionError", "expected length >= {}, got {}", mark_size, limit);
  if (slack < 0) throw error("AssertionError", "expected leeway >= 0, got {}", slack);
  const std::int64_t size = r.length(s);
  if (size < 0) throw type_error("object of type '{}' has no len()", type_name(s));
  if (size <= limit + slack) return s;
  if (!s.is_string()) return add(r, r.slice(s, none(), integer(limit - mark_size), none()), mark);
  std::string_view kept = characters(s.text(), 0, limit - mark_size);
  if (!is_true(killwords)) {
    const std::size_t space = kept.rfind(' ');
    if (space != kept.npos) kept = kept.substr(0, space);
  }
  return add(r, r.part(kept, s.is_markup()), mark);
}

Value filter_wordcount(Renderer& r, Arguments& a) {
  const auto [s] = a.bind<1>("do_wordcount", {"s"}, 1);
  const std::string_view text = r.str_of(s);
  std::int64_t n = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const bool word = is_word(next_character(text, at));
    n += word && !in_word;
    in_word = word;
  }
  return integer(n);
}

Value filter_wordwrap(Renderer& r, Arguments& a) {
  const auto [s, width, break_long, wrapstring, on_hyphens] =
      a.bind<5>("do_wordwrap", {"s", "width", "break_long_words", "wrapstring", "break_on_hyphens"}, 1);
  const Value separator = wrapstring.is_missing() || wrapstring.is_none() ? r.part("\n") : wrapstring;
  const std::int64_t columns = width.is_missing() ? 79 : to_index(width);
  std::string out;
  bool is_first = true;
  for (const std::string_view line : split_lines(need_text(s, "splitlines").text())) {
    if (!is_first) out += need_text(separator, "join").text();
    is_first = false;
    const auto wrapped = wrap_line(line, columns, break_long.is_missing() || is_true(break_long),
                                   on_hyphens.is_missing() || is_true(on_hyphens));
    for (std::size_t i = 0; i < wrapped.size(); ++i) {
      if (i > 0) out += separator.text();
      out += wrapped[i];
    }
  }
  return r.text(out, separator.is_markup());
}

Value filter_xmlattr(Renderer& r, Arguments& a) {
  const auto [d, autospace] = a.bind<2>("do_xmlattr", {"d", "autospace"}, 1);
  if (d.is_undefined()) fail_undefined(d);
  if (!d.is(Kind::dict)) throw error("AttributeError", "'{}' object has no attribute 'items'", type_name(d));
  std::string out;
  for (const Dict::Entry& entry : d.dict->entries) {
    if (entry.value.is_none() || entry.value.is_undefined()) continue;
    if (!entry.key.is_string())
      throw type_error("expected string or bytes-like object, got '{}'", type_name(entry.key));
    if (entry.key.text().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      throw value_error("Invalid character in attribute name: {}", repr(entry.key));
    }
    const auto safe = [](const Value& v) { return v.is_markup() ? std::string(v.text()) : escaped(str(v)); };
    if (!out.empty()) out += ' ';
    out += safe(entry.key) + "=\"" + safe(entry.value) + "\"";
  }
  if (!out.empty() && (autospace.is_missing() || is_true(autospace))) out.insert(0, 1, ' ');
  return r.text(out, r.autoescape());
}

Value filter_filesizeformat(Renderer& r, Arguments& a) {
  const auto [value, binary] = a.bind<2>("do_filesizeformat", {"value", "binary"}, 1);
  const bool is_binary = is_true(binary);
  const double base = is_binary ? 1024 : 1000;
  double bytes = 0;
  if (value.is_number()) {
    bytes = value.as_real();
  } else if (value.is_string()) {
    const auto parsed = parse_real(value.text());
    if (!parsed) throw value_error("could not convert string to float: {}", repr(value));
    bytes = *parsed;
  } else {
    if (value.is_undefined()) fail_undefined(value);
    throw type_error("float() argument must be a string or a real number, not '{}'", type_name(value));
  }
  if (bytes == 1) return r.text("1 Byte");
  if (std::isnan(bytes)) return r.text(is_binary ? "nan YiB" : "nan YB");
  if (bytes < base) {
    if (std::isinf(bytes)) throw error("OverflowError", "cannot convert float infinity to integer");
    if (std::fabs(bytes) >= 9.2e18) throw error("unsupported", "an integer does not fit 64 bits");
    return r.text(fmt::format("{} Bytes", static_cast<std::int64_t>(bytes)));
  }
  double unit = base;
  for (const char prefix : std::string_view("kMGTPEZY")) {
    unit *= base;
    if (bytes >= unit && prefix != 'Y') continue;
    const std::string name =
        is_binary ? std::string(1, prefix == 'k' ? 'K' : prefix) + "iB" : std::string(1, prefix) + "B";
    const double scaled = base * bytes / unit;
    return r.text((scaled < 0 ? "-" : "") + real_digits(std::fabs(scaled), 'f', 1, false) + " " + name);
  }
  return {};
}

Value filter_urlencode(Renderer& r, Arguments& a) {
  const auto [value] = a.bind<1>("do_urlencode", {"value"}, 1);
  const auto quoted = [](std::string_view text, bool is_query) {
    std::string out;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      const bool is_safe = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '.' ||
                           c == '-' || c == '~' || (c == '/' && !is_query);
      out += is_safe ? std::string(1, c) : is_query && c == ' ' ? "+" : fmt::format("%{:02X}", byte);
    }
    return out;
  };
  if (value.is_string() || !is_iterable(value)) return r.text(quoted(r.str_of(value), false));
  std::string out;
  const auto add_pair = [&](const Value& k, const Value& v) {
    if (!out.empty()) out += '&';
    out += quoted(r.str_of(k), true) + "=" + quoted(r.str_of(v), true);
  };
  if (value.is(Kind::dict)) {
    for (const Dict::Entry& entry : value.dict->entries) add_pair(entry.key, entry.value);
  } else {
    for (const Value& item : r.items(value)) {
      if (!is_iterable(item)) throw type_error("cannot unpack non-iterable {} object", type_name(item));
      const std::vector<Value> parts = r.items(item);
      if (parts.size() > 2) throw value_error("too many values to unpack (expected 2)");
      if (parts.size() < 2) throw value_error("not enough values to unpack (expected 2, got {})", parts.size());
      add_pair(parts[0], parts[1]);
    }
  }
  return r.text(out);
}

}  // namespace vitrine::jinja
