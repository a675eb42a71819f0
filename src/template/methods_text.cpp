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
  const std::string_view wanted = text_argument(sub, "find");
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
  const std::string_view wanted = text_argument(sub, "count");
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
  const std::string_view from = text_argument(old, "replace");
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

template <bool at_end>
Value without_affix(Renderer& r, Arguments& a) {
  no_keywords(a, "removeprefix");
  const auto [self, affix] = a.bind<2>("removeprefix", {"self", "affix"}, 2);
  const std::string_view text = self.text(), wanted = text_argument(affix, at_end ? "removesuffix" : "removeprefix");
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
    {"center", text_center},
    {"count", count_text},
    {"encode", encode},
    {"endswith", has_affix<true>},
    {"expandtabs", text_expandtabs},
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
    {"ljust", text_ljust},
    {"lower", changed<lower>},
    {"lstrip", stripped<true, false>},
    {"partition", text_partition},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"replace", replace_text},
    {"rfind", find_text<true, false>},
    {"rindex", find_text<true, true>},
    {"rjust", text_rjust},
    {"rpartition", text_rpartition},
    {"rsplit", text_rsplit},
    {"rstrip", stripped<false, true>},
    {"split", text_split},
    {"splitlines", text_splitlines},
    {"startswith", has_affix<false>},
    {"strip", stripped<true, true>},
    {"swapcase", changed<swap_case>},
    {"title", changed<title>},
    {"translate", translated},
    {"upper", changed<upper>},
    {"zfill", text_zfill},
};

}  // namespace

Builtin* find_text_method(std::string_view name, bool is_markup) {
  if (is_markup && name == "striptags") return markup_striptags;
  if (is_markup && name == "unescape") return markup_unescape;
  return find_builtin(kMethods, name);
}

}  // namespace vitrine::jinja
