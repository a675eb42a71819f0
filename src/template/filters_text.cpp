// Filters of text.
#include <algorithm>

#include "template/builtins.h"
#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

template <class Change>
Value changed(Renderer& r, const Arguments& a, const char* name, Change change) {
  const auto [s] = a.bind<1>(name, {"s"}, 1);
  const Value text = soft_string(r, s);
  return text_like(r, text, change(text.text()));
}

/// A string that a method of str is called on. Throws TemplateError for other values.
const Value& need_text(const Value& value, const char* method) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_string()) throw error("AttributeError", "'{}' object has no attribute '{}'", type_name(value), method);
  return value;
}

/// Words begin with a capital letter: jinja2's title, whose words end at white space and opening brackets.
std::string titled(std::string_view text) {
  const auto is_between = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const bool between = is_between(next_character(text, at));
    const std::size_t second = at;
    for (std::size_t next = at; at < text.size(); at = next) {
      if (is_between(next_character(text, next)) != between) break;
    }
    out += upper(text.substr(begin, second - begin)) + lower(text.substr(second, at - second));
  }
  return out;
}

}  // namespace

Value filter_capitalize(Renderer& r, Arguments& a) { return changed(r, a, "do_capitalize", capitalize); }
Value filter_lower(Renderer& r, Arguments& a) { return changed(r, a, "do_lower", lower); }
Value filter_upper(Renderer& r, Arguments& a) { return changed(r, a, "do_upper", upper); }

Value filter_title(Renderer& r, Arguments& a) {
  const auto [s] = a.bind<1>("do_title", {"s"}, 1);
  return r.text(titled(r.str_of(s)));
}

Value filter_center(Renderer& r, Arguments& a) {
  const auto [value, width] = a.bind<2>("do_center", {"value", "width"}, 1);
  Arguments call{{soft_string(r, value), width.is_missing() ? integer(80) : width}, {}};
  return text_center(r, call);
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
  std::string indention;
  if (width.is_string()) {
    indention = width.text();
  } else {
    const auto n = static_cast<std::size_t>(width.is_missing() ? 4 : std::max<std::int64_t>(to_index(width), 0));
    r.heap().check(n);
    indention.assign(n, ' ');
  }
  if (s.is_markup() && !width.is_markup()) indention = escaped(indention);
  const std::string text = std::string(need_text(s, "splitlines").text()) + "\n";
  const std::vector<std::string_view> lines = split_lines(text);
  r.heap().check(text.size() + indention.size() * lines.size());
  std::string out = is_true(first) ? indention : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (is_true(blank) || !lines[i].empty())) out += indention;
    out += lines[i];
  }
  return text_like(r, s, out);
}

Value filter_replace(Renderer& r, Arguments& a) {
  const auto [s, old, made, count] = a.bind<4>("do_replace", {"s", "old", "new", "count"}, 3);
  const auto text = [&](const Value& v) { return r.part(r.str_of(v)); };
  Arguments call{{text(s), text(old), text(made), count.is_absent() ? integer(-1) : count}, {}};
  return text_replace(r, call);
}

Value filter_trim(Renderer& r, Arguments& a) {
  const auto [value, chars] = a.bind<2>("do_trim", {"value", "chars"}, 1);
  Arguments call{{soft_string(r, value), chars}, {}};
  return text_strip(r, call);
}

Value filter_truncate(Renderer& r, Arguments& a) {
  const auto [s, length, killwords, end, leeway] =
      a.bind<5>("do_truncate", {"s", "length", "killwords", "end", "leeway"}, 1);
  const std::int64_t limit = length.is_missing() ? 255 : to_index(length);
  const std::int64_t slack = leeway.is_absent() ? 5 : to_index(leeway);
  const Value mark = end.is_missing() ? r.part("...") : need_text(end, "len");
  const std::int64_t mark_size = r.length(mark);
  if (limit < mark_size) throw error("AssertionError", "expected length >= {}, got {}", mark_size, limit);
  if (slack < 0) throw error("AssertionError", "expected leeway >= 0, got {}", slack);
  if (r.length(need_text(s, "rsplit")) <= limit + slack) return s;
  std::string_view kept = characters(s.text(), 0, limit - mark_size);
  if (!is_true(killwords)) kept = kept.substr(0, kept.rfind(' '));
  return add(r, part_of(r, s, kept), mark);
}

Value filter_wordcount(Renderer& r, Arguments& a) {
  const auto [s] = a.bind<1>("do_wordcount", {"s"}, 1);
  const std::string_view text = r.str_of(s);
  if (!is_ascii(text)) throw error("unsupported", "filter \"wordcount\": only supported for text in ASCII");
  std::int64_t n = 0;
  bool in_word = false;
  for (const char c : text) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    n += is_word && !in_word;
    in_word = is_word;
  }
  return integer(n);
}

}  // namespace vitrine::jinja
