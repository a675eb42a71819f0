#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

utf8proc_category_t category(std::uint32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

/// Below this, a character is its own form and neither joins with the one before it nor is reordered.
std::uint32_t first_affected(NormalForm form) {
  return form == NormalForm::nfc ? 0x300 : form == NormalForm::nfd ? 0xC0 : 0xA0;
}

/// The form of a short or long run. (utf8proc's own function sorts marks by insertion: quadratic in a run of marks.)
void append_normalized(std::string_view run, NormalForm form, std::vector<utf8proc_int32_t>& buffer, std::string& out) {
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  constexpr std::size_t kLongest = 32;  // the longest decomposition has 18
  buffer.clear();
  for (std::size_t i = 0; i < run.size();) {
    const std::size_t length = length_by_lead(run[i]);
    const std::size_t at = buffer.size();
    buffer.resize(at + kLongest);
    int boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point(run.substr(i, length))),
                                           buffer.data() + at, kLongest, options, &boundary);
    if (n < 0 || static_cast<std::size_t>(n) > kLongest) throw InternalError("tokenizer", "a decomposition fails");
    buffer.resize(at + static_cast<std::size_t>(n));
    i += length;
  }
  for (auto from = buffer.begin(); from != buffer.end();) {
    from = std::find_if(from, buffer.end(), [](auto c) { return combining_class(c) != 0; });
    const auto to = std::find_if(from, buffer.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(from, to, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    from = to;
  }
  auto n = static_cast<utf8proc_ssize_t>(buffer.size());
  if (composed) {
    n = utf8proc_normalize_utf32(buffer.data(), n, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (n < 0) throw InternalError("tokenizer", "a composition fails");
  }
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    append_code_point(static_cast<std::uint32_t>(buffer[static_cast<std::size_t>(i)]), out);
  }
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  const std::uint32_t first = first_affected(form);
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> buffer;
  std::size_t copied = 0;    // text before is in `out`
  std::size_t previous = 0;  // where the last character begins, which a mark may join
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = length_by_lead(text[i]);
    if (code_point(text.substr(i, length)) < first) {
      previous = i;
      i += length;
      continue;
    }
    const std::size_t begin = std::max(previous, copied);
    while (i < text.size()) {
      const std::size_t next = length_by_lead(text[i]);
      if (code_point(text.substr(i, next)) < first) break;
      i += next;
    }
    out.append(text.substr(copied, begin - copied));
    append_normalized(text.substr(begin, i - begin), form, buffer, out);
    copied = previous = i;
  }
  return out.append(text.substr(copied));
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = length_by_lead(text[i]);
    const std::uint32_t c = code_point(text.substr(i, length));
    if (c < 0x80) {
      out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c));
    } else if (c == 0x130) {
      out += "i\u0307";  // the only character that becomes two
    } else {
      append_code_point(static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
    }
    i += length;
  }
  return out;
}

std::size_t grapheme_length(std::string_view text) {
  std::size_t i = length_by_lead(text[0]);
  if (i == text.size() ||
      (static_cast<unsigned char>(text[0]) < 0x80 && static_cast<unsigned char>(text[i]) < 0x80 && text[0] != '\r')) {
    return i;
  }
  auto before = static_cast<utf8proc_int32_t>(code_point(text));
  utf8proc_int32_t state = 0;
  while (i < text.size()) {
    const std::size_t length = length_by_lead(text[i]);
    const auto c = static_cast<utf8proc_int32_t>(code_point(text.substr(i, length)));
    if (utf8proc_grapheme_break_stateful(before, c, &state)) return i;
    before = c;
    i += length;
  }
  return i;
}

bool is_white_space(std::uint32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0D) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_numeric(std::uint32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(std::uint32_t c) {
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool is_combining_mark(std::uint32_t c) {
  const auto k = category(c);
  return c >= 0x80 && k >= UTF8PROC_CATEGORY_MN && k <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(std::uint32_t c) { return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_MN; }

bool is_control(std::uint32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

bool is_word_character(std::uint32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  const auto k = category(c);
  // Alphabetic holds, besides letters, marks and letter numbers, the circled and squared Latin letters.
  return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) || is_combining_mark(c) ||
         k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_PC || c == 0x200C ||
         c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

}  // namespace vitrine
