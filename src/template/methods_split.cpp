// The methods of str that divide text and that pad it.
#include <algorithm>

#include "template/methods.h"
#include "template/text.h"

namespace vitrine::jinja {
namespace {

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
}  // namespace

Value text_split(Renderer& r, Arguments& a) { return split_text<false>(r, a); }
Value text_rsplit(Renderer& r, Arguments& a) { return split_text<true>(r, a); }
Value text_splitlines(Renderer& r, Arguments& a) { return split_lines_of(r, a); }
Value text_partition(Renderer& r, Arguments& a) { return partition<false>(r, a); }
Value text_rpartition(Renderer& r, Arguments& a) { return partition<true>(r, a); }
Value text_center(Renderer& r, Arguments& a) { return justified<Side::center>(r, a); }
Value text_ljust(Renderer& r, Arguments& a) { return justified<Side::left>(r, a); }
Value text_rjust(Renderer& r, Arguments& a) { return justified<Side::right>(r, a); }
Value text_zfill(Renderer& r, Arguments& a) { return zero_filled(r, a); }
Value text_expandtabs(Renderer& r, Arguments& a) { return expand_tabs(r, a); }

}  // namespace vitrine::jinja
