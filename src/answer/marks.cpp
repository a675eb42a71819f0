#include "answer/marks.h"

#include <algorithm>

namespace vitrine::answer {
namespace {

constexpr std::size_t kMaxMark = 64;
constexpr std::string_view kOpening = "<[", kClosing = ">]";

bool is_closing(char opening, char c) { return c == kClosing[kOpening.find(opening)]; }

}  // namespace

std::string_view left_stripped(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
}

std::string_view right_stripped(std::string_view text) { return text.substr(0, text.find_last_not_of(kSpace) + 1); }

std::string_view stripped(std::string_view text) { return right_stripped(left_stripped(text)); }

bool take(std::string_view& text, std::string_view literal) {
  if (!text.starts_with(literal)) return false;
  text.remove_prefix(literal.size());
  return true;
}

Match match(std::string_view text, std::string_view literal, bool is_last) {
  if (text.starts_with(literal)) return Match::yes;
  return !is_last && literal.starts_with(text) ? Match::partial : Match::no;
}

std::size_t find_begun(std::string_view text, std::string_view literal, std::size_t from) {
  const std::size_t whole = text.find(literal, from);
  if (whole != text.npos) return whole;
  std::size_t at = std::max(from, text.size() - std::min(text.size(), literal.size()));
  while (at < text.size() && !literal.starts_with(text.substr(at))) ++at;
  return std::min(at, text.size());
}

std::string_view after_last(std::string_view text, std::string_view end) {
  const std::size_t at = text.rfind(end);
  return at == text.npos ? text : text.substr(at + end.size());
}

std::size_t mark_end(std::string_view text) {
  if (text.empty() || kOpening.find(text[0]) == kOpening.npos) return 0;
  for (std::size_t i = 1; i < std::min(text.size(), kMaxMark); ++i) {
    if (is_closing(text[0], text[i])) return i + 1;
    if (kSpace.find(text[i]) != kSpace.npos || text[i] == text[0] || text[i] == '{') return 0;
  }
  return 0;
}

std::string_view last_mark(std::string_view text) {
  text = stripped(text);
  for (std::size_t size = 2; size <= std::min(text.size(), kMaxMark); ++size) {
    const std::string_view end = text.substr(text.size() - size);
    if (mark_end(end) == size) return end;
  }
  return {};
}

std::size_t mark_boundary(std::string_view text, std::size_t at) {
  for (std::size_t i = at; i-- > 0 && at - i < kMaxMark;) {
    const std::size_t size = mark_end(text.substr(i));
    if (size > at - i) return i;
  }
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace vitrine::answer
