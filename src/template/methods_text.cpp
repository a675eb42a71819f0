// The methods of str, as the sandbox permits them. Methods of Markup return Markup and escape their arguments.
#include "template/builtins.h"
#include "template/format.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

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

// clang-format off
constexpr NamedBuiltin kMethods[] = {
    {"capitalize", changed<capitalize>}, {"casefold", changed<fold_case>}, {"center", text_center},
    {"count", count_text}, {"encode", refused}, {"endswith", has_affix<true>}, {"expandtabs", refused},
    {"find", find_text<false, false>}, {"format", format_text}, {"format_map", refused},
    {"index", find_text<false, true>}, {"isalnum", are_letters_or_digits}, {"isalpha", are_letters},
    {"isascii", are_ascii}, {"isdecimal", are_decimals}, {"isdigit", are_digits}, {"isidentifier", refused},
    {"islower", has_case_of<false>}, {"isnumeric", refused}, {"isprintable", refused}, {"isspace", are_spaces},
    {"istitle", refused}, {"isupper", has_case_of<true>}, {"join", join_text}, {"ljust", text_ljust},
    {"lower", changed<lower>}, {"lstrip", text_lstrip}, {"maketrans", refused}, {"partition", text_partition},
    {"removeprefix", without_affix<false>}, {"removesuffix", without_affix<true>}, {"replace", text_replace},
    {"rfind", find_text<true, false>}, {"rindex", find_text<true, true>}, {"rjust", text_rjust},
    {"rpartition", text_rpartition}, {"rsplit", text_rsplit}, {"rstrip", text_rstrip}, {"split", text_split},
    {"splitlines", text_splitlines}, {"startswith", has_affix<false>}, {"strip", text_strip}, {"striptags", refused},
    {"swapcase", changed<swap_case>}, {"title", changed<title>}, {"translate", refused}, {"unescape", refused},
    {"upper", changed<upper>}, {"zfill", text_zfill},
};
// clang-format on

}  // namespace

std::string_view text_argument(const Value& value, const char* function) {
  if (!value.is_string()) throw type_error("{}() argument must be str, not {}", function, type_name(value));
  return value.text();
}

std::string argument_for(const Value& like, const Value& value, const char* function) {
  const std::string_view text = text_argument(value, function);
  return like.is_markup() && !value.is_markup() ? escaped(text) : std::string(text);
}

Builtin* find_text_method(std::string_view name) { return find_builtin(kMethods, name); }

}  // namespace vitrine::jinja
