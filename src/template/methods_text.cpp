// The methods of str, as the sandbox permits them. Methods of Markup return Markup and escape their arguments.
#include <algorithm>

#include "template/builtins.h"
#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

/// The text of an argument that must be a string.
std::string_view text_argument(const Value& value, const char* function) {
  if (!value.is_string()) throw type_error("{}() argument must be str, not {}", function, type_name(value));
  return value.text();
}

/// The same, escaped if `like` is Markup and the argument is not.
std::string argument_for(const Value& like, const Value& value, const char* function) {
  const std::string_view text = text_argument(value, function);
  return like.is_markup() && !value.is_markup() ? escaped(text) : std::string(text);
}

template <std::string change(std::string_view)>
Value changed(Renderer& r, Arguments& a) {
  const auto [self] = a.bind<1>("method", {"self"}, 1);
  return text_like(r, self, change(self.text()));
}

/// Whether a text has characters and all are of a class. Which characters beyond ASCII are letters or digits needs
/// tables of Unicode, so that a text with such characters is refused, unless its other characters decide.
Value all_are(const Arguments& a, const char* name, bool is(char)) {
  const std::string_view text = a.positional[0].text();
  if (!std::all_of(text.begin(), text.end(), [is](char c) { return !is_ascii(c) || is(c); })) return boolean(false);
  if (!is_ascii(text)) throw error("unsupported", "method of str \"{}\": only supported for text in ASCII", name);
  return boolean(!text.empty());
}
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
Value are_letters(Renderer&, Arguments& a) { return all_are(a, "isalpha", is_letter); }
Value are_digits(Renderer&, Arguments& a) { return all_are(a, "isdigit", is_digit); }
Value are_decimals(Renderer&, Arguments& a) { return all_are(a, "isdecimal", is_digit); }
Value are_letters_or_digits(Renderer&, Arguments& a) {
  return all_are(a, "isalnum", [](char c) { return is_letter(c) || is_digit(c); });
}
Value are_spaces(Renderer&, Arguments& a) {
  const std::string_view text = a.positional[0].text();
  return boolean(!text.empty() && strip(text, true, false).empty());
}
Value are_ascii(Renderer&, Arguments& a) { return boolean(is_ascii(a.positional[0].text())); }
template <bool is_upper>
Value has_case_of(Renderer&, Arguments& a) {
  return boolean(has_case(a.positional[0].text(), is_upper));
}

/// Bytes [begin, end) of the characters that the arguments start and end of find() select.
struct Window {
  std::size_t begin = 0, end = 0;
  bool is_valid = true;
};
Window window_of(Renderer& r, const Value& self, const Value& start, const Value& end) {
  const std::string_view text = self.text();
  if (start.is_absent() && end.is_absent()) return {0, text.size()};
  const std::int64_t size = r.length(self);
  const auto index = [&](const Value& v, std::int64_t otherwise) {
    if (v.is_absent()) return otherwise;
    const std::int64_t i = to_index(v);
    return i < 0 ? std::max<std::int64_t>(i + size, 0) : i;
  };
  const std::int64_t first = index(start, 0), last = std::min(index(end, size), size);
  if (first > last) return {0, 0, false};
  return {byte_of(text, first), byte_of(text, last)};
}

template <bool from_right, bool must>
Value find_text(Renderer& r, Arguments& a) {
  const auto [self, sub, start, end] = a.bind<4>("find", {"self", "sub", "start", "end"}, 2);
  const std::string_view wanted = text_argument(sub, "find");
  const Window w = window_of(r, self, start, end);
  const std::string_view part = self.text().substr(w.begin, w.end - w.begin);
  const std::size_t at = !w.is_valid ? part.npos : from_right ? part.rfind(wanted) : part.find(wanted);
  if (at != part.npos) return integer(count_characters(self.text().substr(0, w.begin + at)));
  if (must) throw value_error("substring not found");
  return integer(-1);
}

Value count_text(Renderer& r, Arguments& a) {
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
  const auto [self, affix, start, end] = a.bind<4>(name, {"self", "affix", "start", "end"}, 2);
  const Window w = window_of(r, self, start, end);
  const std::string_view text = self.text().substr(w.begin, w.end - w.begin);
  const auto has = [&](const Value& v) {
    if (!v.is_string()) throw type_error("tuple for {} must only contain str, not {}", name, type_name(v));
    return w.is_valid && (at_end ? text.ends_with(v.text()) : text.starts_with(v.text()));
  };
  if (affix.is(Kind::tuple)) {
    return boolean(std::any_of(affix.list->items.begin(), affix.list->items.end(), has));
  }
  if (!affix.is_string()) {
    throw type_error("{} first arg must be str or a tuple of str, not {}", name, type_name(affix));
  }
  return boolean(has(affix));
}

Value join_text(Renderer& r, Arguments& a) {
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
  return text_like(r, self, out);
}

template <bool at_end>
Value without_affix(Renderer& r, Arguments& a) {
  const char* const name = at_end ? "removesuffix" : "removeprefix";
  const auto [self, affix] = a.bind<2>(name, {"self", "affix"}, 2);
  const std::string_view text = self.text(), wanted = text_argument(affix, name);
  if (at_end ? !text.ends_with(wanted) : !text.starts_with(wanted)) return self;
  return part_of(r, self, text.substr(at_end ? 0 : wanted.size(), text.size() - wanted.size()));
}

Value format_text(Renderer& r, Arguments& a) {
  const Value self = a.positional[0];
  a.positional.erase(a.positional.begin());
  return brace_format(r, self, a);
}

/// Removes the word at one end of `text`, and the white space there.
std::string_view take_word(std::string_view& text, bool from_right) {
  std::size_t size = 0;  // of the word
  while (size < text.size()) {
    const std::size_t at = from_right ? before_character(text, text.size() - size) : size;
    std::size_t next = at;
    if (is_space(next_character(text, next))) break;
    size = from_right ? text.size() - at : next;
  }
  const std::string_view word = from_right ? text.substr(text.size() - size) : text.substr(0, size);
  text = from_right ? text.substr(0, text.size() - size) : text.substr(size);
  text = strip(text, !from_right, from_right);
  return word;
}

template <bool from_right>
Value split(Renderer& r, Arguments& a) {
  const auto [self, sep, maxsplit] = a.bind<3>("split", {"self", "sep", "maxsplit"}, 1);
  std::int64_t left = maxsplit.is_missing() ? -1 : to_index(maxsplit);
  std::string_view text = self.text();
  std::vector<Value> pieces;
  const auto add = [&, &whole = self](std::string_view piece) { pieces.push_back(part_of(r, whole, piece)); };
  if (sep.is_absent()) {
    text = strip(text, !from_right, from_right);
    for (; !text.empty() && left != 0; --left) add(take_word(text, from_right));
    if (!text.empty()) add(strip(text, !from_right, from_right));
  } else {
    const std::string_view by = text_argument(sep, "split");
    if (by.empty()) throw value_error("empty separator");
    for (; left != 0; --left) {
      const std::size_t at = from_right ? text.rfind(by) : text.find(by);
      if (at == text.npos) break;
      const std::string_view before = text.substr(0, at), after = text.substr(at + by.size());
      add(from_right ? after : before);
      text = from_right ? before : after;
    }
    add(text);
  }
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  r.step(static_cast<std::int64_t>(pieces.size()));
  return r.new_list(pieces);
}

template <bool from_right>
Value partition(Renderer& r, Arguments& a) {
  const auto [self, sep] = a.bind<2>("partition", {"self", "sep"}, 2);
  const std::string by = argument_for(self, sep, "partition");
  if (by.empty()) throw value_error("empty separator");
  const std::string_view text = self.text();
  const std::size_t at = from_right ? text.rfind(by) : text.find(by);
  const Value nothing = part_of(r, self, "");
  if (at == text.npos) {
    return from_right ? r.new_tuple({nothing, nothing, self}) : r.new_tuple({self, nothing, nothing});
  }
  return r.new_tuple({part_of(r, self, text.substr(0, at)), part_of(r, self, text.substr(at, by.size())),
                      part_of(r, self, text.substr(at + by.size()))});
}

template <bool left, bool right>
Value stripped(Renderer& r, Arguments& a) {
  const char* const name = left && right ? "strip" : left ? "lstrip" : "rstrip";
  const auto [self, chars] = a.bind<2>(name, {"self", "chars"}, 1);
  if (chars.is_absent()) return part_of(r, self, strip(self.text(), left, right));
  if (!chars.is_string()) throw type_error("{} arg must be None or str", name);
  const std::string_view removed = chars.text();
  return part_of(r, self, strip(self.text(), left, right, &removed));
}

enum class Side { left, right, center };
template <Side side>
Value justified(Renderer& r, Arguments& a) {
  const auto [self, width, fill] = a.bind<3>("just", {"self", "width", "fillchar"}, 2);
  const std::string with = fill.is_missing() ? " " : argument_for(self, fill, "just");
  if (count_characters(with) != 1) throw type_error("The fill character must be exactly one character long");
  const std::int64_t columns = std::min(to_index(width), std::int64_t{1} << 40);
  const std::int64_t missing = std::max<std::int64_t>(columns - r.length(self), 0);
  const std::int64_t before = side == Side::left    ? 0
                              : side == Side::right ? missing
                                                    : missing / 2 + (missing & columns & 1);
  r.heap().check(static_cast<std::size_t>(missing) * with.size());
  std::string out;
  for (std::int64_t i = 0; i < before; ++i) out += with;
  out += self.text();
  for (std::int64_t i = before; i < missing; ++i) out += with;
  return text_like(r, self, out);
}

Value zero_filled(Renderer& r, Arguments& a) {
  const auto [self, width] = a.bind<2>("zfill", {"self", "width"}, 2);
  const std::int64_t columns = std::min(to_index(width), std::int64_t{1} << 40);
  const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(columns - r.length(self), 0));
  r.heap().check(missing);
  std::string out(self.text());
  out.insert(out.starts_with('-') || out.starts_with('+') ? 1 : 0, missing, '0');
  return text_like(r, self, out);
}

Value lines_of(Renderer& r, Arguments& a) {
  const auto [self, keepends] = a.bind<2>("splitlines", {"self", "keepends"}, 1);
  std::vector<Value> lines;
  for (const std::string_view line : split_lines(self.text(), is_true(keepends))) {
    lines.push_back(part_of(r, self, line));
  }
  return r.new_list(lines);
}

// clang-format off
constexpr NamedBuiltin kMethods[] = {
    {"capitalize", changed<capitalize>}, {"casefold", changed<fold_case>}, {"center", text_center},
    {"count", count_text}, {"encode", refused}, {"endswith", has_affix<true>}, {"expandtabs", refused},
    {"find", find_text<false, false>}, {"format", format_text}, {"format_map", refused},
    {"index", find_text<false, true>}, {"isalnum", are_letters_or_digits}, {"isalpha", are_letters},
    {"isascii", are_ascii}, {"isdecimal", are_decimals}, {"isdigit", are_digits}, {"isidentifier", refused},
    {"islower", has_case_of<false>}, {"isnumeric", refused}, {"isprintable", refused}, {"isspace", are_spaces},
    {"istitle", refused}, {"isupper", has_case_of<true>}, {"join", join_text}, {"ljust", justified<Side::left>},
    {"lower", changed<lower>}, {"lstrip", stripped<true, false>}, {"maketrans", refused},
    {"partition", partition<false>}, {"removeprefix", without_affix<false>}, {"removesuffix", without_affix<true>},
    {"replace", text_replace}, {"rfind", find_text<true, false>}, {"rindex", find_text<true, true>},
    {"rjust", justified<Side::right>}, {"rpartition", partition<true>}, {"rsplit", split<true>},
    {"rstrip", stripped<false, true>}, {"split", split<false>}, {"splitlines", lines_of},
    {"startswith", has_affix<false>}, {"strip", text_strip}, {"striptags", refused}, {"swapcase", changed<swap_case>},
    {"title", changed<title>}, {"translate", refused}, {"unescape", refused}, {"upper", changed<upper>},
    {"zfill", zero_filled},
};
// clang-format on

}  // namespace

Builtin* find_text_method(std::string_view name) { return find_builtin(kMethods, name); }

Value text_strip(Renderer& r, Arguments& a) { return stripped<true, true>(r, a); }
Value text_center(Renderer& r, Arguments& a) { return justified<Side::center>(r, a); }

Value text_replace(Renderer& r, Arguments& a) {
  const auto [self, old, made, count] = a.bind<4>("replace", {"self", "old", "new", "count"}, 3);
  const std::string_view text = self.text(), from = text_argument(old, "replace");
  const std::string escaped_to = self.is_markup() ? argument_for(self, made, "replace") : "";
  const std::string_view to = self.is_markup() ? std::string_view(escaped_to) : text_argument(made, "replace");
  Draft out = r.new_draft();
  std::size_t at = 0;  // up to where `text` is copied
  for (std::int64_t left = count.is_missing() ? -1 : to_index(count); left != 0; --left) {
    std::size_t next = from.empty() ? at : text.find(from, at);
    if (next == text.npos) break;
    out += text.substr(at, next - at);
    out += to;
    r.heap().check(out.size());
    at = next + from.size();
    if (!from.empty()) continue;
    if (at >= text.size()) break;
    next_character(text, next);  // nothing is found before each character, and at the end
    out += text.substr(at, next - at);
    at = next;
  }
  out += text.substr(at);
  return text_like(r, self, out);
}

}  // namespace vitrine::jinja
