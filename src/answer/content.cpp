#include "answer/content.h"

#include <algorithm>

#include "answer/marks.h"

namespace vitrine::answer {
namespace {

/// What a template puts after a content, the last first.
std::vector<std::string_view> ends_of(const AnswerFormat& format, ContentPlace place) {
  std::vector<std::string_view> ends;
  if (place == ContentPlace::after_calls) {
    ends.push_back(stripped(std::string_view(format.calls->end).substr(format.calls->closing.size())));
  }
  ends.push_back(stripped(format.content_end));
  std::erase(ends, "");
  return ends;
}

/// Where the ends may begin that `text` ends with, each of them once.
std::size_t begin_of_ends(std::string_view text, const std::vector<std::string_view>& ends, std::size_t n) {
  text = right_stripped(text);
  std::size_t begin = text.size();
  if (n == 0) return begin;
  for (const std::string_view end : ends) {
    if (text.ends_with(end))
      begin = std::min(begin, begin_of_ends(text.substr(0, text.size() - end.size()), ends, n - 1));
  }
  return begin;
}

}  // namespace

std::string content_of(const AnswerFormat& format, ContentPlace place, std::string_view text) {
  std::vector<std::string_view> ends = ends_of(format, place);
  text = stripped(text);
  for (const std::string& lead : format.content_leads) {
    if (take(text, lead)) break;
  }
  for (const std::string_view end : ends) {
    text = right_stripped(text);
    if (text.ends_with(end)) text.remove_suffix(end.size());
  }
  return std::string(stripped(text));
}

std::optional<std::size_t> content_begin(const AnswerFormat& format, std::string_view text) {
  std::string_view rest = left_stripped(text);
  for (const std::string& lead : format.content_leads) {
    const Match found = match(rest, lead, false);
    if (found == Match::partial) return std::nullopt;
    if (found == Match::no) continue;
    rest.remove_prefix(lead.size());
    break;
  }
  rest = left_stripped(rest);
  if (rest.empty()) return std::nullopt;
  return text.size() - rest.size();
}

std::size_t certain_size(const AnswerFormat& format, ContentPlace place, std::string_view content) {
  const std::vector<std::string_view> ends = ends_of(format, place);
  std::size_t longest = 1;
  for (const std::string_view end : ends) longest = std::max(longest, end.size());
  std::size_t size = content.size();
  for (std::size_t at = content.size() - std::min(content.size(), longest - 1); at <= content.size(); ++at) {
    const std::string_view last = content.substr(at);
    const bool may_be_end = last.empty() || std::ranges::any_of(ends, [&](auto end) { return end.starts_with(last); });
    if (may_be_end) size = std::min(size, begin_of_ends(content.substr(0, at), ends, ends.size()));
  }
  return size;
}

}  // namespace vitrine::answer
