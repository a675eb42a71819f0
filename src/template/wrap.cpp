#include "template/wrap.h"

#include <algorithm>

#include "template/error.h"
#include "template/text.h"
#include "template/unicode_tables.h"

namespace vitrine::jinja {
namespace {

/// textwrap's white space is that of ASCII.
bool is_blank(char32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_letter(char32_t c) { return is_word(c) && !has_property(c, kDecimal); }
bool is_quote_or_word(char32_t c) {
  return is_word(c) || c == '!' || c == '"' || c == '\'' || c == '&' || c == '.' || c == ',' || c == '?';
}

/// Divides a line where textwrap may break it: around white space, after hyphens in words, around em dashes.
class Chunks {
 public:
  Chunks(const std::u32string& text, bool on_hyphens) : text_(text), on_hyphens_(on_hyphens) {}

  std::vector<std::u32string> run() {
    std::vector<std::u32string> chunks;
    while (at_ < text_.size()) {
      const std::size_t end = is_blank(text_[at_]) ? after_blanks(at_) : on_hyphens_ ? after_chunk() : after_word(at_);
      chunks.push_back(text_.substr(at_, end - at_));
      at_ = end;
    }
    return chunks;
  }

 private:
  char32_t at(std::size_t i) const { return i < text_.size() ? text_[i] : U'\0'; }
  bool blank(std::size_t i) const { return i < text_.size() && is_blank(text_[i]); }
  std::size_t after_blanks(std::size_t i) const {
    while (blank(i)) ++i;
    return i;
  }
  std::size_t after_word(std::size_t i) const {
    while (i < text_.size() && !is_blank(text_[i])) ++i;
    return i;
  }
  std::size_t after_dashes(std::size_t i) const {
    while (at(i) == '-') ++i;
    return i;
  }
  /// Whether two or more hyphens begin at `i` and a word follows: an em dash.
  bool is_dash(std::size_t i) const {
    const std::size_t end = after_dashes(i);
    return end >= i + 2 && end < text_.size() && is_word(text_[end]);
  }
  std::size_t after_chunk() const {
    if (at_ > 0 && is_quote_or_word(text_[at_ - 1]) && is_dash(at_)) return after_dashes(at_);
    // A word, hyphens included, up to a hyphen after two letters or "letter-letter-", white space, or an em dash.
    for (std::size_t i = at_ + 1; i <= text_.size(); ++i) {
      if (i == text_.size() || is_blank(text_[i])) return i;
      if (is_quote_or_word(text_[i - 1]) && is_dash(i)) return i;
      if (text_[i] == '-' && i > at_ && breaks_after_hyphen(i)) return i + 1;
    }
    return text_.size();
  }
  /// (?<=LETTER{2}-)|(?<=LETTER-LETTER-) after the hyphen at `i`, and LETTER-?LETTER before it.
  bool breaks_after_hyphen(std::size_t i) const {
    const bool two = i >= 2 && is_letter(text_[i - 1]) && is_letter(text_[i - 2]);
    const bool spelled = i >= 3 && is_letter(text_[i - 1]) && text_[i - 2] == '-' && is_letter(text_[i - 3]);
    if (!two && !spelled) return false;
    const std::size_t next = i + 1;
    if (next >= text_.size() || !is_letter(text_[next])) return false;
    return (next + 1 < text_.size() && is_letter(text_[next + 1])) ||
           (at(next + 1) == '-' && next + 2 < text_.size() && is_letter(text_[next + 2]));
  }

  const std::u32string& text_;
  bool on_hyphens_;
  std::size_t at_ = 0;
};

bool is_all_space(const std::u32string& chunk) { return std::all_of(chunk.begin(), chunk.end(), is_space); }

}  // namespace

std::vector<std::string> wrap_line(std::string_view line, std::int64_t width, bool break_long_words, bool on_hyphens) {
  if (width <= 0) throw value_error("invalid width {} (must be > 0)", width);
  const std::u32string text = code_points(line);
  std::vector<std::u32string> chunks = Chunks(text, on_hyphens).run();
  std::reverse(chunks.begin(), chunks.end());
  const auto limit = static_cast<std::size_t>(width);
  std::vector<std::string> lines;
  while (!chunks.empty()) {
    std::vector<std::u32string> current;
    std::size_t size = 0;
    if (!lines.empty() && is_all_space(chunks.back())) chunks.pop_back();
    while (!chunks.empty() && size + chunks.back().size() <= limit) {
      size += chunks.back().size();
      current.push_back(std::move(chunks.back()));
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().size() > limit) {
      const std::size_t room = limit - size;
      if (break_long_words) {
        std::size_t end = std::max<std::size_t>(room, 1);
        std::u32string& chunk = chunks.back();
        if (on_hyphens && chunk.size() > room && room > 0) {  // after the last hyphen that fits, if there is one
          const std::size_t hyphen = chunk.substr(0, room).rfind('-');
          const bool has_other = hyphen != chunk.npos && chunk.substr(0, hyphen).find_first_not_of(U'-') != chunk.npos;
          if (hyphen != chunk.npos && hyphen > 0 && has_other) end = hyphen + 1;
        }
        if (room > 0 || current.empty()) {
          current.push_back(chunk.substr(0, end));
          chunk.erase(0, end);
        }
      } else if (current.empty()) {
        current.push_back(std::move(chunks.back()));
        chunks.pop_back();
      }
    }
    if (!current.empty() && is_all_space(current.back())) current.pop_back();
    if (current.empty()) continue;
    std::string joined;
    for (const std::u32string& chunk : current) joined += from_code_points(chunk);
    lines.push_back(std::move(joined));
  }
  return lines;
}

}  // namespace vitrine::jinja
