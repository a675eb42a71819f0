// The methods of str that divide text, replace its parts, and pad it.
#include <algorithm>

#include "template/builtins.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

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

}  // namespace

Value text_split(Renderer& r, Arguments& a) { return split<false>(r, a); }
Value text_rsplit(Renderer& r, Arguments& a) { return split<true>(r, a); }
Value text_partition(Renderer& r, Arguments& a) { return partition<false>(r, a); }
Value text_rpartition(Renderer& r, Arguments& a) { return partition<true>(r, a); }
Value text_strip(Renderer& r, Arguments& a) { return stripped<true, true>(r, a); }
Value text_lstrip(Renderer& r, Arguments& a) { return stripped<true, false>(r, a); }
Value text_rstrip(Renderer& r, Arguments& a) { return stripped<false, true>(r, a); }
Value text_center(Renderer& r, Arguments& a) { return justified<Side::center>(r, a); }
Value text_ljust(Renderer& r, Arguments& a) { return justified<Side::left>(r, a); }
Value text_rjust(Renderer& r, Arguments& a) { return justified<Side::right>(r, a); }

Value text_zfill(Renderer& r, Arguments& a) {
  const auto [self, width] = a.bind<2>("zfill", {"self", "width"}, 2);
  const std::int64_t columns = std::min(to_index(width), std::int64_t{1} << 40);
  const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(columns - r.length(self), 0));
  r.heap().check(missing);
  std::string out(self.text());
  out.insert(out.starts_with('-') || out.starts_with('+') ? 1 : 0, missing, '0');
  return text_like(r, self, out);
}

Value text_splitlines(Renderer& r, Arguments& a) {
  const auto [self, keepends] = a.bind<2>("splitlines", {"self", "keepends"}, 1);
  std::vector<Value> lines;
  for (const std::string_view line : split_lines(self.text(), is_true(keepends))) {
    lines.push_back(part_of(r, self, line));
  }
  return r.new_list(lines);
}

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
