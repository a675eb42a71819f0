#include "template/text.h"

#include <algorithm>
#include <iterator>

#include "template/unicode_tables.h"

namespace vitrine::jinja {
namespace {

std::uint32_t properties(char32_t character) {
  constexpr std::uint32_t kMask = (1u << kPropertyBits) - 1;
  const auto* const run = std::upper_bound(std::begin(kPropertyRuns), std::end(kPropertyRuns),
                                           static_cast<std::uint32_t>(character) << kPropertyBits | kMask);
  return run == std::begin(kPropertyRuns) ? 0 : *std::prev(run) & kMask;
}

/// One of the tables of unicode_tables.h.
struct CaseTable {
  const CaseRange *first_range, *last_range;
  const SpecialCase *first_special, *last_special;

  void append(std::string& out, char32_t c) const {
    const auto* const range =
        std::upper_bound(first_range, last_range, c, [](char32_t x, const CaseRange& r) { return x < r.first; });
    if (range != first_range) {
      const CaseRange& r = *std::prev(range);
      if (c <= r.last && (c - r.first) % r.stride == 0) {
        return append_character(out, static_cast<char32_t>(static_cast<std::int64_t>(c) + r.added));
      }
    }
    const auto* const special = std::find_if(first_special, last_special, [c](auto& s) { return s.character == c; });
    if (special != last_special && c >= 0x80) {
      out += special->text;
    } else {
      append_character(out, c);
    }
  }
};

constexpr CaseTable kLowerCase{std::begin(kLowerRanges), std::end(kLowerRanges), std::begin(kLowerSpecial),
                               std::end(kLowerSpecial)};
constexpr CaseTable kUpperCase{std::begin(kUpperRanges), std::end(kUpperRanges), std::begin(kUpperSpecial),
                               std::end(kUpperSpecial)};
constexpr CaseTable kTitleCase{std::begin(kTitleRanges), std::end(kTitleRanges), std::begin(kTitleSpecial),
                               std::end(kTitleSpecial)};
constexpr CaseTable kFoldCase{std::begin(kFoldRanges), std::end(kFoldRanges), std::begin(kFoldSpecial),
                              std::end(kFoldSpecial)};

constexpr char32_t kSigma = 0x3A3;

bool is_cased(char32_t c) { return has_property(c, kUpper | kLower | kTitle); }

/// Whether the capital sigma at index `i` ends a word, so that its small letter is ς.
bool is_final_sigma(const std::u32string& text, std::size_t i) {
  std::size_t before = i;
  while (before > 0 && has_property(text[before - 1], kCaseIgnorable)) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  std::size_t after = i + 1;
  while (after < text.size() && has_property(text[after], kCaseIgnorable)) ++after;
  return after == text.size() || !is_cased(text[after]);
}

void append_lower(std::string& out, const std::u32string& text, std::size_t i) {
  if (text[i] == kSigma) {
    append_character(out, is_final_sigma(text, i) ? 0x3C2 : 0x3C3);
  } else {
    kLowerCase.append(out, text[i]);
  }
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

template <class Change>
std::string ascii_changed(std::string_view text, Change change) {
  std::string out(text);
  for (char& c : out) c = change(c);
  return out;
}
char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
char ascii_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }

}  // namespace

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
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
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::size_t byte_of(std::string_view text, std::int64_t index) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && index-- == 0) return at;
  }
  return at;
}

std::string_view characters(std::string_view text, std::int64_t begin, std::int64_t end) {
  if (end <= begin) return {};
  const std::size_t first = byte_of(text, begin);
  const std::string_view rest = text.substr(first);
  return rest.substr(0, byte_of(rest, end - begin));
}

std::u32string code_points(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) out.push_back(next_character(text, at));
  return out;
}

std::string from_code_points(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) append_character(out, c);
  return out;
}

bool has_surrogate(std::string_view text) {
  for (std::size_t i = text.find('\xED'); i != text.npos; i = text.find('\xED', i + 1)) {
    if (i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0xA0) return true;
  }
  return false;
}

bool is_utf8(std::string_view text) {
  std::string again;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(text, at);
    if (c < 0x80 && at - begin == 1) continue;
    again.clear();
    append_character(again, c);
    if (text.substr(begin, at - begin) != again) return false;  // also overlong forms and values that are too large
  }
  return !has_surrogate(text);
}

bool has_property(char32_t c, std::uint32_t wanted) { return (properties(c) & wanted) != 0; }

bool is_space(char32_t c) {
  return c < 0x80 ? c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F) : has_property(c, kSpace);
}

bool is_word(char32_t c) { return c == '_' || has_property(c, kAlpha | kDecimal | kDigit | kNumeric); }

int decimal_value(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9' ? static_cast<int>(c - '0') : -1;
  if (!has_property(c, kDecimal)) return -1;
  // The ten digits of a script follow each other; scripts may too, so that only the remainder of the run counts.
  char32_t first = c;
  while (has_property(first - 1, kDecimal)) --first;
  return static_cast<int>((c - first) % 10);
}

std::string lower(std::string_view text) {
  if (is_ascii(text)) return ascii_changed(text, ascii_lower);
  const std::u32string points = code_points(text);
  std::string out;
  for (std::size_t i = 0; i < points.size(); ++i) append_lower(out, points, i);
  return out;
}

std::string upper(std::string_view text) {
  if (is_ascii(text)) return ascii_changed(text, ascii_upper);
  std::string out;
  for (std::size_t at = 0; at < text.size();) kUpperCase.append(out, next_character(text, at));
  return out;
}

std::string fold_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) kFoldCase.append(out, next_character(text, at));
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
      kTitleCase.append(out, points[i]);
    }
    in_word = is_cased(points[i]);
  }
  return out;
}

std::string swap_case(std::string_view text) {
  const std::u32string points = code_points(text);
  std::string out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (has_property(points[i], kUpper)) {
      append_lower(out, points, i);
    } else if (has_property(points[i], kLower)) {
      kUpperCase.append(out, points[i]);
    } else {
      append_character(out, points[i]);
    }
  }
  return out;
}

std::string capitalize(std::string_view text) {
  const std::u32string points = code_points(text);
  std::string out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i == 0) {
      kTitleCase.append(out, points[i]);
    } else {
      append_lower(out, points, i);
    }
  }
  return out;
}

bool has_case(std::string_view text, std::uint32_t property) {
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (has_property(c, (kUpper | kLower | kTitle) & ~property)) return false;
    any = any || has_property(c, property);
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
    std::size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
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
