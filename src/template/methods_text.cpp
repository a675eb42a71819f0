// The methods of str, as the sandbox permits them, and of Markup.
#include <algorithm>

#include "template/builtins.h"
#include "template/format.h"
#include "template/methods.h"
#include "template/percent_format.h"
#include "template/text.h"
#include "template/unicode_tables.h"

namespace vitrine::jinja {
namespace {

const Value& self_of(const Arguments& a) { return a.positional[0]; }
std::string_view text_of(const Arguments& a) { return a.positional[0].text(); }

/// A result: Markup if the method is one of Markup.
Value like_self(Renderer& r, const Arguments& a, std::string_view text) { return r.text(text, self_of(a).is_markup()); }
Value like_self(Renderer& r, const Arguments& a, const Draft& text) { return r.text(text, self_of(a).is_markup()); }
Value part_of_self(Renderer& r, const Arguments& a, std::string_view part) {
  return r.part(part, self_of(a).is_markup());
}

void no_arguments(const Arguments& a, const char* method) { a.bind<1>(method, {"self"}, 1); }
void no_keywords(const Arguments& a, const char* method) {
  if (!a.named.empty()) throw type_error("str.{}() takes no keyword arguments", method);
}

std::string_view need_text(const Value& v, const char* method) {
  if (!v.is_string()) throw type_error("{}() argument must be str, not {}", method, type_name(v));
  return v.text();
}
/// An argument that Markup escapes.
std::string argument_text(const Arguments& a, const Value& v, const char* method) {
  const std::string_view text = need_text(v, method);
  return self_of(a).is_markup() && !v.is_markup() ? escaped(text) : std::string(text);
}

template <std::string change(std::string_view)>
Value changed(Renderer& r, Arguments& a) {
  no_arguments(a, "method");
  return like_self(r, a, change(text_of(a)));
}

template <bool left, bool right>
Value stripped(Renderer& r, Arguments& a) {
  const char* const name = left && right ? "strip" : left ? "lstrip" : "rstrip";
  no_keywords(a, name);
  const auto [self, chars] = a.bind<2>(name, {"self", "chars"}, 1);
  if (chars.is_missing() || chars.is_none()) return part_of_self(r, a, strip(self.text(), left, right));
  if (!chars.is_string()) throw type_error("{} arg must be None or str", name);
  const std::string_view removed = chars.text();
  return part_of_self(r, a, strip(self.text(), left, right, &removed));
}

/// Whether all characters have a property, and there are some.
template <std::uint32_t property>
Value all_have(Renderer&, Arguments& a) {
  no_arguments(a, "method");
  const std::string_view text = text_of(a);
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (!(property == kSpace ? is_space(c) : has_property(c, property))) return boolean(false);
  }
  return boolean(!text.empty() || property == kPrintable);
}
Value is_ascii_text(Renderer&, Arguments& a) {
  no_arguments(a, "isascii");
  return boolean(is_ascii(text_of(a)));
}
Value is_identifier(Renderer&, Arguments& a) {
  no_arguments(a, "isidentifier");
  const std::string_view text = text_of(a);
  for (std::size_t at = 0; at < text.size();) {
    const bool is_first = at == 0;
    const char32_t c = next_character(text, at);
    if (c != '_' && !has_property(c, is_first ? kAlpha : kAlpha | kDecimal)) return boolean(false);
  }
  return boolean(!text.empty());
}
template <std::uint32_t property>
Value has_case_of(Renderer&, Arguments& a) {
  no_arguments(a, "method");
  return boolean(has_case(text_of(a), property));
}
Value is_title(Renderer&, Arguments& a) {
  no_arguments(a, "istitle");
  bool in_word = false, any = false;
  const std::string_view text = text_of(a);
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (has_property(c, kUpper | kTitle)) {
      if (in_word) return boolean(false);
      in_word = any = true;
    } else if (has_property(c, kLower)) {
      if (!in_word) return boolean(false);
      any = true;
    } else {
      in_word = false;
    }
  }
  return boolean(any);
}

/// Bytes [begin, end) of the characters that the arguments start and end of find() select.
struct Window {
  std::size_t begin = 0, end = 0;
  bool is_valid = true;
};
Window window_of(Renderer& r, const Value& self, const Value& start, const Value& end) {
  const std::string_view text = self.text();
  const std::int64_t size = r.length(self);
  const auto index = [&](const Value& v, std::int64_t otherwise) {
    if (v.is_missing() || v.is_none()) return otherwise;
    if (!v.is_integer()) throw type_error("slice indices must be integers or None or have an __index__ method");
    const std::int64_t i = v.as_integer();
    return i < 0 ? std::max<std::int64_t>(i + size, 0) : i;
  };
  const std::int64_t first = index(start, 0), last = std::min(index(end, size), size);
  if (first > last || first > size) return {0, 0, false};
  return {byte_of(text, first), last == size ? text.size() : byte_of(text, last), true};
}

Value found_at(const Value& self, std::size_t byte) {
  return integer(byte == std::string_view::npos ? -1 : count_characters(self.text().substr(0, byte)));
}
template <bool from_right, bool must>
Value find_text(Renderer& r, Arguments& a) {
  no_keywords(a, "find");
  const auto [self, sub, start, end] = a.bind<4>("find", {"self", "sub", "start", "end"}, 2);
  const std::string_view wanted = need_text(sub, "find");
  const Window w = window_of(r, self, start, end);
  std::size_t at = std::string_view::npos;
  if (w.is_valid) {
    const std::string_view part = self.text().substr(w.begin, w.end - w.begin);
    at = from_right ? part.rfind(wanted) : part.find(wanted);
    if (at != part.npos) at += w.begin;
  }
  if (must && at == std::string_view::npos) throw value_error("substring not found");
  return found_at(self, at);
}
Value count_text(Renderer& r, Arguments& a) {
  no_keywords(a, "count");
  const auto [self, sub, start, end] = a.bind<4>("count", {"self", "sub", "start", "end"}, 2);
  const std::string_view wanted = need_text(sub, "count");
  const Window w = window_of(r, self, start, end);
  if (!w.is_valid) return integer(0);
  const std::string_view part = self.text().substr(w.begin, w.end - w.begin);
  if (wanted.empty()) return integer(count_characters(part) + 1);
  std::int64_t n = 0;
  for (std::size_t at = part.find(wanted); at != part.npos; at = part.find(wanted, at + wanted.size())) ++n;
  return integer(n);
}
template <bool at_end>
Value has_affix(Renderer& r, Arguments& a) {
  const char* const name = at_end ? "endswith" : "startswith";
  no_keywords(a, name);
  const auto [self, affix, start, end] = a.bind<4>(name, {"self", "affix", "start", "end"}, 2);
  const Window w = window_of(r, self, start, end);
  const std::string_view text = self.text().substr(w.begin, w.end - w.begin);
  const auto has = [&](const Value& v) {
    const std::string_view wanted = v.text();
    if (!w.is_valid || wanted.size() > text.size()) return false;
    return at_end ? text.substr(text.size() - wanted.size()) == wanted : text.substr(0, wanted.size()) == wanted;
  };
  if (affix.is_string()) return boolean(has(affix));
  if (!affix.is(Kind::tuple)) {
    throw type_error("{} first arg must be str or a tuple of str, not {}", name, type_name(affix));
  }
  for (const Value& one : affix.list->items) {
    if (!one.is_string()) throw type_error("tuple for {} must only contain str, not {}", name, type_name(one));
    if (has(one)) return boolean(true);
  }
  return boolean(false);
}

Value replace_text(Renderer& r, Arguments& a) {
  no_keywords(a, "replace");
  const auto [self, old, made, count] = a.bind<4>("replace", {"self", "old", "new", "count"}, 3);
  const std::string_view from = need_text(old, "replace");
  const std::string escaped_to = argument_text(a, made, "replace");
  const std::string_view to = self.is_markup() ? std::string_view(escaped_to) : made.text();
  std::int64_t left = count.is_missing() ? -1 : to_index(count);
  const std::string_view text = self.text();
  Draft out = r.new_draft();
  std::size_t at = 0;
  while (left != 0) {
    std::size_t next = from.empty() ? at : text.find(from, at);
    if (next == text.npos) break;
    out += text.substr(at, next - at);
    out += to;
    r.heap().check(out.size());
    --left;
    if (!from.empty()) {
      at = next + from.size();
      continue;
    }
    if (at >= text.size()) return like_self(r, a, out);
    next_character(text, next);
    out += text.substr(at, next - at);
    at = next;
  }
  out += text.substr(at);
  return like_self(r, a, out);
}

Value join_text(Renderer& r, Arguments& a) {
  no_keywords(a, "join");
  const auto [self, iterable] = a.bind<2>("join", {"self", "iterable"}, 2);
  if (!is_iterable(iterable)) throw type_error("can only join an iterable");
  Draft out = r.new_draft();
  std::size_t i = 0;
  for (const Value& item : r.items(iterable)) {
    if (i > 0) out += self.text();
    if (self.is_markup() && !item.is_markup()) {
      out += escaped(str(item));
    } else {
      if (!item.is_string()) throw type_error("sequence item {}: expected str instance, {} found", i, type_name(item));
      out += item.text();
    }
    r.heap().check(out.size());
    ++i;
  }
  return like_self(r, a, out);
}

/// Adds the pieces of `text` between white space, at most `left` breaks, from the left or from the right.
void split_space(std::string_view text, std::int64_t left, bool from_right, std::vector<std::string_view>& pieces) {
  text = from_right ? strip(text, false, true) : strip(text, true, false);
  while (!text.empty()) {
    if (left-- == 0) {
      pieces.push_back(from_right ? strip(text, false, true) : strip(text, true, false));
      return;
    }
    if (!from_right) {
      std::size_t end = 0;
      while (end < text.size()) {
        std::size_t next = end;
        if (is_space(next_character(text, next))) break;
        end = next;
      }
      pieces.push_back(text.substr(0, end));
      text = strip(text.substr(end), true, false);
    } else {
      std::size_t begin = text.size();
      while (begin > 0) {
        std::size_t previous = begin - 1;
        while (previous > 0 && (static_cast<unsigned char>(text[previous]) & 0xC0) == 0x80) --previous;
        std::size_t at = previous;
        if (is_space(next_character(text, at))) break;
        begin = previous;
      }
      pieces.push_back(text.substr(begin));
      text = strip(text.substr(0, begin), false, true);
    }
  }
}

template <bool from_right>
Value split_text(Renderer& r, Arguments& a) {
  const auto [self, sep, maxsplit] = a.bind<3>("split", {"self", "sep", "maxsplit"}, 1);
  std::int64_t left = maxsplit.is_missing() ? -1 : to_index(maxsplit);
  std::string_view text = self.text();
  std::vector<std::string_view> pieces;
  if (sep.is_missing() || sep.is_none()) {
    split_space(text, left, from_right, pieces);
  } else {
    if (!sep.is_string()) throw type_error("must be str or None, not {}", type_name(sep));
    const std::string_view by = sep.text();
    if (by.empty()) throw value_error("empty separator");
    for (; left != 0; --left) {
      const std::size_t at = from_right ? text.rfind(by) : text.find(by);
      if (at == text.npos) break;
      pieces.push_back(from_right ? text.substr(at + by.size()) : text.substr(0, at));
      text = from_right ? text.substr(0, at) : text.substr(at + by.size());
    }
    pieces.push_back(text);
  }
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  std::vector<Value> values;
  r.step(static_cast<std::int64_t>(pieces.size()));
  for (const std::string_view piece : pieces) values.push_back(part_of_self(r, a, piece));
  return r.new_list(values);
}
Value split_lines_of(Renderer& r, Arguments& a) {
  const auto [self, keepends] = a.bind<2>("splitlines", {"self", "keepends"}, 1);
  std::vector<Value> values;
  for (const std::string_view line : split_lines(self.text(), is_true(keepends))) {
    values.push_back(part_of_self(r, a, line));
  }
  return r.new_list(values);
}
template <bool from_right>
Value partition(Renderer& r, Arguments& a) {
  no_keywords(a, "partition");
  const auto [self, sep] = a.bind<2>("partition", {"self", "sep"}, 2);
  const std::string by = argument_text(a, sep, "partition");
  if (by.empty()) throw value_error("empty separator");
  const std::string_view text = self.text();
  const std::size_t at = from_right ? text.rfind(by) : text.find(by);
  const auto made = [&](std::string_view first, std::string_view middle, std::string_view last) {
    return r.new_tuple({part_of_self(r, a, first), like_self(r, a, middle), part_of_self(r, a, last)});
  };
  if (at == text.npos) return from_right ? made("", "", text) : made(text, "", "");
  return made(text.substr(0, at), by, text.substr(at + by.size()));
}

/// A string padded on the left and on the right with a number of characters.
Value padded(Renderer& r, const Arguments& a, std::int64_t left, std::int64_t right, const Value& fill) {
  std::string with = " ";
  if (!fill.is_missing()) {
    if (!fill.is_string()) {
      throw type_error("The fill character must be a unicode character, not {}", type_name(fill));
    }
    with = argument_text(a, fill, "just");
    if (count_characters(with) != 1) throw type_error("The fill character must be exactly one character long");
  }
  r.heap().check(static_cast<std::size_t>(left + right) * with.size());
  std::string out;
  for (std::int64_t i = 0; i < left; ++i) out += with;
  out += text_of(a);
  for (std::int64_t i = 0; i < right; ++i) out += with;
  return like_self(r, a, out);
}
enum class Side { left, right, center };
template <Side side>
Value justified(Renderer& r, Arguments& a) {
  no_keywords(a, "just");
  const auto [self, width, fill] = a.bind<3>("just", {"self", "width", "fillchar"}, 2);
  const std::int64_t columns = to_index(width);
  const std::int64_t missing = std::max<std::int64_t>(std::min(columns, std::int64_t{1} << 40) - r.length(self), 0);
  if (side == Side::left) return padded(r, a, 0, missing, fill);
  if (side == Side::right) return padded(r, a, missing, 0, fill);
  const std::int64_t left = missing / 2 + (missing & columns & 1);
  return padded(r, a, left, missing - left, fill);
}
Value zero_filled(Renderer& r, Arguments& a) {
  no_keywords(a, "zfill");
  const auto [self, width] = a.bind<2>("zfill", {"self", "width"}, 2);
  const std::int64_t missing =
      std::max<std::int64_t>(std::min(to_index(width), std::int64_t{1} << 40) - r.length(self), 0);
  r.heap().check(static_cast<std::size_t>(missing));
  const std::string_view text = self.text();
  const std::size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  std::string out(text.substr(0, sign));
  out.append(static_cast<std::size_t>(missing), '0');
  out += text.substr(sign);
  return like_self(r, a, out);
}
Value expand_tabs(Renderer& r, Arguments& a) {
  const auto [self, tabsize] = a.bind<2>("expandtabs", {"self", "tabsize"}, 1);
  const std::int64_t size = tabsize.is_missing() ? 8 : to_index(tabsize);
  std::string out;
  std::int64_t column = 0;
  for (std::size_t at = 0; at < self.text().size();) {
    const char32_t c = next_character(self.text(), at);
    if (c == '\t') {
      const std::int64_t n = size > 0 ? size - column % size : 0;
      r.heap().check(static_cast<std::size_t>(n) + out.size());
      out.append(static_cast<std::size_t>(n), ' ');
      column += n;
    } else {
      append_character(out, c);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return like_self(r, a, out);
}
template <bool at_end>
Value without_affix(Renderer& r, Arguments& a) {
  no_keywords(a, "removeprefix");
  const auto [self, affix] = a.bind<2>("removeprefix", {"self", "affix"}, 2);
  const std::string_view text = self.text(), wanted = need_text(affix, at_end ? "removesuffix" : "removeprefix");
  const bool has = wanted.size() <= text.size() &&
                   (at_end ? text.substr(text.size() - wanted.size()) : text.substr(0, wanted.size())) == wanted;
  if (!has) return self;
  return part_of_self(r, a, at_end ? text.substr(0, text.size() - wanted.size()) : text.substr(wanted.size()));
}
Value translated(Renderer& r, Arguments& a) {
  no_keywords(a, "translate");
  const auto [self, table] = a.bind<2>("translate", {"self", "table"}, 2);
  std::string out;
  for (std::size_t at = 0; at < self.text().size();) {
    const char32_t c = next_character(self.text(), at);
    const Value key = integer(c);
    const Value* const found = table.is(Kind::dict) ? table.dict->find(key) : nullptr;
    const Value to = found != nullptr ? *found : r.item(table, key);
    if (to.is_string()) {
      out += to.text();
    } else if (to.is_integer()) {
      if (to.as_integer() < 0 || to.as_integer() > 0x10FFFF) {
        throw value_error("character mapping must be in range(0x110000)");
      }
      append_character(out, static_cast<char32_t>(to.as_integer()));
    } else if (!to.is_none()) {
      append_character(out, c);
    }
  }
  return like_self(r, a, out);
}
Value format_text(Renderer& r, Arguments& a) {
  const Value self = self_of(a);
  a.positional.erase(a.positional.begin());
  return brace_format(r, self, a, {});
}
Value format_map(Renderer& r, Arguments& a) {
  const auto [self, mapping] = a.bind<2>("format_map", {"self", "mapping"}, 2);
  return brace_format(r, self, {}, mapping);
}
Value markup_striptags(Renderer& r, Arguments& a) {
  no_arguments(a, "striptags");
  return r.text(without_tags(text_of(a)));
}
Value markup_unescape(Renderer& r, Arguments& a) {
  no_arguments(a, "unescape");
  return r.text(unescaped(text_of(a)));
}
Value encode(Renderer&, Arguments&) { throw error("unsupported", "bytes are not supported"); }

constexpr NamedBuiltin kMethods[] = {
    {"capitalize", changed<capitalize>},
    {"casefold", changed<fold_case>},
    {"center", justified<Side::center>},
    {"count", count_text},
    {"encode", encode},
    {"endswith", has_affix<true>},
    {"expandtabs", expand_tabs},
    {"find", find_text<false, false>},
    {"format", format_text},
    {"format_map", format_map},
    {"index", find_text<false, true>},
    {"isalnum", all_have<kAlpha | kDecimal | kDigit | kNumeric>},
    {"isalpha", all_have<kAlpha>},
    {"isascii", is_ascii_text},
    {"isdecimal", all_have<kDecimal>},
    {"isdigit", all_have<kDigit>},
    {"isidentifier", is_identifier},
    {"islower", has_case_of<kLower>},
    {"isnumeric", all_have<kNumeric>},
    {"isprintable", all_have<kPrintable>},
    {"isspace", all_have<kSpace>},
    {"istitle", is_title},
    {"isupper", has_case_of<kUpper>},
    {"join", join_text},
    {"ljust", justified<Side::left>},
    {"lower", changed<lower>},
    {"lstrip", stripped<true, false>},
    {"partition", partition<false>},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"replace", replace_text},
    {"rfind", find_text<true, false>},
    {"rindex", find_text<true, true>},
    {"rjust", justified<Side::right>},
    {"rpartition", partition<true>},
    {"rsplit", split_text<true>},
    {"rstrip", stripped<false, true>},
    {"split", split_text<false>},
    {"splitlines", split_lines_of},
    {"startswith", has_affix<false>},
    {"strip", stripped<true, true>},
    {"swapcase", changed<swap_case>},
    {"title", changed<title>},
    {"translate", translated},
    {"upper", changed<upper>},
    {"zfill", zero_filled},
};

}  // namespace

Builtin* find_text_method(std::string_view name, bool is_markup) {
  if (is_markup && name == "striptags") return markup_striptags;
  if (is_markup && name == "unescape") return markup_unescape;
  return find_builtin(kMethods, name);
}

}  // namespace vitrine::jinja
