#include "template/text.h"

#include <algorithm>
#include <iterator>

#include "template/case_tables.h"

namespace vitrine::jinja {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

template <std::size_t n>
bool append_form(std::string& out, char32_t c, const OtherForm (&forms)[n]) {
  const auto* const form = std::find_if(forms, forms + n, [c](const OtherForm& f) { return f.letter == c; });
  if (form != forms + n) out += form->text;
  return form != forms + n;
}

void append_upper(std::string& out, char32_t c) {
  if (c < 0x80) return out.push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
  const auto x = static_cast<std::int32_t>(c);
  for (const auto& [first, last, stride, added] : kLetterPairs) {
    if (x - added >= first && x - added <= last && (x - added - first) % stride == 0) {
      return append_character(out, static_cast<char32_t>(x - added));
    }
  }
  if (!append_form(out, c, kCapitalForms)) append_character(out, c);
}

void append_lower(std::string& out, char32_t c) {
  if (c < 0x80) return out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  const auto x = static_cast<std::int32_t>(c);
  for (const auto& [first, last, stride, added] : kLetterPairs) {
    if (x >= first && x <= last && (x - first) % stride == 0) {
      return append_character(out, static_cast<char32_t>(x + added));
    }
  }
  if (!append_form(out, c, kSmallForms)) append_character(out, c);
}

std::string changed(char32_t c, void append(std::string& out, char32_t c)) {
  std::string out;
  append(out, c);
  return out;
}
bool is_changed(char32_t c, void append(std::string& out, char32_t c)) {
  return changed(c, append) != changed(c, append_character);
}
bool is_upper(char32_t c) { return is_changed(c, append_lower); }
bool is_lower(char32_t c) { return is_changed(c, append_upper); }
bool is_cased(char32_t c) { return is_upper(c) || is_lower(c); }

/// Whether the capital sigma at index `i` ends a word, so that its small letter is ς.
bool is_final_sigma(const std::u32string& text, std::size_t i) {
  const auto is_ignored = [&](std::size_t at) {
    return std::u32string_view(U"'.:^`·\u00AD’").find(text[at]) != std::u32string_view::npos ||
           (text[at] >= 0x300 && text[at] < 0x370);
  };
  std::size_t before = i, after = i + 1;
  while (before > 0 && is_ignored(before - 1)) --before;
  while (after < text.size() && is_ignored(after)) ++after;
  return before > 0 && is_cased(text[before - 1]) && (after == text.size() || !is_cased(text[after]));
}

void append_lower(std::string& out, const std::u32string& text, std::size_t i) {
  if (text[i] == U'Σ' && is_final_sigma(text, i)) {
    out += "ς";
  } else {
    append_lower(out, text[i]);
  }
}

/// Capital at the beginning of a word: the first of several characters only ("Ss" of "ß").
void append_title(std::string& out, char32_t c) {
  const std::u32string upper = code_points(changed(c, append_upper));
  append_character(out, upper[0]);
  for (std::size_t i = 1; i < upper.size(); ++i) append_lower(out, upper[i]);
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return is_ascii(c); });
}

char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t lead = byte(at);
  if (lead < 0x80) return ++at, lead;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (at + length > text.size()) return ++at, lead;
  char32_t c = lead & (length == 2 ? 0x1F : length == 3 ? 0x0F : 0x07);
  for (std::size_t i = 1; i < length; ++i) c = c << 6 | (byte(at + i) & 0x3F);
  at += length;
  return c;
}

std::size_t before_character(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && is_continuation(text[end]));
  return end;
}

void append_character(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

std::int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); });
}

std::size_t byte_of(std::string_view text, std::int64_t index) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!is_continuation(text[at]) && index-- == 0) return at;
  }
  return at;
}

std::string_view characters(std::string_view text, std::int64_t begin, std::int64_t end) {
  if (end <= begin) return {};
  const std::string_view rest = text.substr(byte_of(text, begin));
  return rest.substr(0, byte_of(rest, end - begin));
}

std::u32string code_points(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) out.push_back(next_character(text, at));
  return out;
}

bool is_utf8(std::string_view text) {
  std::string again;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(text, at);
    if (c < 0x80 && at - begin == 1) continue;
    again.clear();
    append_character(again, c);
    // Not for overlong forms, values that are too large, and surrogates.
    if (text.substr(begin, at - begin) != again || (c >= 0xD800 && c < 0xE000)) return false;
  }
  return true;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  // White space, controls, formats, surrogates, and those for private use.
  static constexpr std::pair<char32_t, char32_t> kOthers[] = {
      {0x00, 0x1F},       {0x7F, 0xA0},       {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},
      {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},     {0x1680, 0x1680},
      {0x180E, 0x180E},   {0x2000, 0x200F},   {0x2028, 0x202F},   {0x205F, 0x206F},   {0x3000, 0x3000},
      {0xD800, 0xF8FF},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},   {0xFFFE, 0xFFFF},   {0x110BD, 0x110BD},
      {0x110CD, 0x110CD}, {0x13430, 0x13438}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0001, 0xE007F},
      {0xF0000, 0x10FFFF}};
  return std::none_of(std::begin(kOthers), std::end(kOthers), [c](auto& r) { return c >= r.first && c <= r.second; });
}

std::string lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (is_ascii(text)) {
    for (const char c : text) append_lower(out, static_cast<char32_t>(c));
    return out;
  }
  const std::u32string points = code_points(text);
  for (std::size_t i = 0; i < points.size(); ++i) append_lower(out, points, i);
  return out;
}

std::string upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) append_upper(out, next_character(text, at));
  return out;
}

std::string fold_case(std::string_view text) {
  std::string out;
  for (const char32_t c : code_points(upper(text))) append_lower(out, c);
  return out;
}

std::string title(std::string_view text) {
  const std::u32string points = code_points(text);
  std::string out;
  bool in_word = false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (in_word) {
      append_lower(out, points, i);
    } else {
      append_title(out, points[i]);
    }
    in_word = is_cased(points[i]);
  }
  return out;
}

std::string swap_case(std::string_view text) {
  const std::u32string points = code_points(text);
  std::string out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (is_upper(points[i])) {
      append_lower(out, points, i);
    } else {
      append_upper(out, points[i]);
    }
  }
  return out;
}

std::string capitalize(std::string_view text) {
  const std::u32string points = code_points(text);
  std::string out;
  if (!points.empty()) append_title(out, points[0]);
  for (std::size_t i = 1; i < points.size(); ++i) append_lower(out, points, i);
  return out;
}

bool has_case(std::string_view text, bool wants_upper) {
  bool any = false;
  for (const char32_t c : code_points(text)) {
    if (wants_upper ? is_lower(c) : is_upper(c)) return false;
    any = any || (wants_upper ? is_upper(c) : is_lower(c));
  }
  return any;
}

std::string_view strip(std::string_view text, bool left, bool right, const std::string_view* removed) {
  const auto is_removed = [&](char32_t c) {
    if (removed == nullptr) return is_space(c);
    for (std::size_t at = 0; at < removed->size();) {
      if (next_character(*removed, at) == c) return true;
    }
    return false;
  };
  while (left && !text.empty()) {
    std::size_t after = 0;
    if (!is_removed(next_character(text, after))) break;
    text.remove_prefix(after);
  }
  while (right && !text.empty()) {
    const std::size_t last = before_character(text, text.size());
    std::size_t at = last;
    if (!is_removed(next_character(text, at))) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    if (!is_line_break(next_character(text, at))) continue;
    if (text[end] == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace vitrine::jinja
