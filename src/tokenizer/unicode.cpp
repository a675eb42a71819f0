#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <bitset>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "tokenizer/unicode_tables.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

/// The entry of a sorted table whose range contains `c`, or null.
template <class Entry, std::size_t n>
const Entry* find_range(const Entry (&table)[n], std::uint32_t c) {
  const Entry* after = std::upper_bound(std::begin(table), std::end(table), c,
                                        [](std::uint32_t value, const Entry& e) { return value < e.first; });
  return after != std::begin(table) && c <= std::prev(after)->last ? std::prev(after) : nullptr;
}

template <class... Category>
constexpr std::uint32_t set_of(Category... categories) {
  return ((1U << categories) | ...);
}
constexpr std::uint32_t kMarks = set_of(UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MC, UTF8PROC_CATEGORY_ME);

/// Whether the category of `c` is one of `categories`, with the exceptions of a property.
template <std::size_t n>
bool is_in(std::uint32_t categories, const unicode_tables::Exception (&exceptions)[n], std::uint32_t c) {
  if (const auto* exception = find_range(exceptions, c)) return exception->has;
  return (categories >> utf8proc_category(static_cast<utf8proc_int32_t>(c)) & 1) != 0;
}

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

/// Characters below this are normalized already, do not compose with the previous character and are not reordered.
std::uint32_t first_affected(NormalForm form) {
  return form == NormalForm::nfc ? 0x300 : form == NormalForm::nfd ? 0xC0 : 0xA0;
}

/// Appends the normal form of `run`. (utf8proc_map sorts marks by insertion, which takes quadratic time.)
void append_normalized(std::string_view run, NormalForm form, std::vector<utf8proc_int32_t>& buffer, std::string& out) {
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  constexpr std::size_t kMaxLength = 32;  // the longest decomposition has 18 characters
  buffer.clear();
  for (std::size_t i = 0; i < run.size();) {
    const std::size_t length = length_by_lead(run[i]);
    const std::size_t at = buffer.size();
    buffer.resize(at + kMaxLength);
    int boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point(run.substr(i, length))),
                                           buffer.data() + at, kMaxLength, options, &boundary);
    if (n < 0 || static_cast<std::size_t>(n) > kMaxLength) throw InternalError("tokenizer", "a decomposition failed");
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
    if (n < 0) throw InternalError("tokenizer", "a composition failed");
  }
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    append_code_point(static_cast<std::uint32_t>(buffer[static_cast<std::size_t>(i)]), out);
  }
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  const std::uint32_t first = first_affected(form);
  const auto is_affected = [&](std::uint32_t c) {
    return c >= first && find_range(unicode_tables::kInert, c) == nullptr;
  };
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> buffer;
  std::size_t copied = 0;    // the text before this offset is in `out`
  std::size_t previous = 0;  // the beginning of the last character, which may compose with a mark
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = length_by_lead(text[i]);
    const std::uint32_t c = code_point(text.substr(i, length));
    if (!is_affected(c)) {
      previous = c < first ? i : i + length;
      i += length;
      continue;
    }
    const std::size_t begin = std::max(previous, copied);
    while (i < text.size()) {
      const std::size_t next = length_by_lead(text[i]);
      if (!is_affected(code_point(text.substr(i, next)))) break;
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
  for_each_character(text, [&](std::uint32_t c, std::string_view) {
    if (c < 0x80) {
      out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c));
    } else if (c == 0x130) {
      out += "i\u0307";  // the only character that becomes two
    } else if (const auto* newer = find_range(unicode_tables::kLower, c)) {
      append_code_point(newer->lower + (c - newer->first), out);
    } else {
      append_code_point(static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
    }
  });
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

std::optional<std::string> with_older_characters(std::string_view text) {
  static const auto pages = [] {  // the blocks of 256 code points that contain a newer character
    std::bitset<0x1100> set;
    for (const auto& entry : unicode_tables::kNewer) {
      for (std::uint32_t page = entry.first >> 8; page <= entry.last >> 8; ++page) set.set(page);
    }
    return set;
  }();
  std::optional<std::string> older;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) < 0xE0) continue;  // newer characters have at least three bytes
    const std::size_t length = length_by_lead(text[i]);
    const std::uint32_t c = code_point(text.substr(i, length));
    const auto* newer = pages[c >> 8] ? find_range(unicode_tables::kNewer, c) : nullptr;
    if (newer != nullptr) {
      if (!older) older = text;
      std::string like;
      append_code_point(newer->like, like);
      older->replace(i, length, like);
    }
    i += length - 1;
  }
  return older;
}

bool is_white_space(std::uint32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0D) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_numeric(std::uint32_t c) {
  return is_in(set_of(UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_NO), unicode_tables::kNumeric, c);
}

bool is_punctuation(std::uint32_t c) {
  return is_in(set_of(UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PD, UTF8PROC_CATEGORY_PS, UTF8PROC_CATEGORY_PE,
                      UTF8PROC_CATEGORY_PI, UTF8PROC_CATEGORY_PF, UTF8PROC_CATEGORY_PO),
               unicode_tables::kPunctuation, c);
}

bool is_combining_mark(std::uint32_t c) { return is_in(kMarks, unicode_tables::kCombiningMark, c); }

bool is_nonspacing_mark(std::uint32_t c) {
  return is_in(set_of(UTF8PROC_CATEGORY_MN), unicode_tables::kNonspacingMark, c);
}

bool is_control(std::uint32_t c) {
  return is_in(set_of(UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CO), unicode_tables::kControl, c);
}

bool is_word_character(std::uint32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  constexpr std::uint32_t kLetters = set_of(UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT,
                                            UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO);
  constexpr std::uint32_t kOthers = set_of(UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_PC);
  return is_in(kLetters | kMarks | kOthers, unicode_tables::kWord, c);
}

}  // namespace vitrine
