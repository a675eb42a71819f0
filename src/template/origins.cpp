#include "template/origins.h"

#include <algorithm>
#include <iterator>

namespace vitrine::jinja {

void append_span(Spans& spans, std::int64_t begin, std::int64_t end) {
  if (begin == end) return;
  if (!spans.empty() && spans.back().second == begin) {
    spans.back().second = end;
  } else {
    spans.emplace_back(begin, end);
  }
}

void Origins::add(const Heap& heap) {
  for (const auto& [begin, end] : heap.blocks()) add(begin, end);
}

void Origins::add(const char* begin, const char* end) {
  if (begin == end) return;
  // Ranges that overlap this one become part of it.
  auto range = ranges_.upper_bound(begin);
  if (range != ranges_.begin() && std::prev(range)->second >= begin) --range;
  while (range != ranges_.end() && range->first <= end) {
    begin = std::min(begin, range->first);
    end = std::max(end, range->second);
    range = ranges_.erase(range);
  }
  ranges_[begin] = end;
}

void Origins::add(std::string_view text, const Spans& parts) {
  for (const auto& [begin, end] : parts) add(text.data() + begin, text.data() + end);
}

bool Origins::covers(std::string_view text) const {
  Spans spans;
  append(spans, text, 0);
  return text.empty() ||
         (spans.size() == 1 && spans[0] == std::pair(std::int64_t{0}, static_cast<std::int64_t>(text.size())));
}

void Origins::append(Spans& spans, std::string_view text, std::size_t at) const {
  if (text.empty()) return;
  const char* const first = text.data();
  const char* const last = first + text.size();
  auto range = ranges_.upper_bound(first);
  if (range != ranges_.begin()) --range;
  for (; range != ranges_.end() && range->first < last; ++range) {
    const char* const begin = std::max(range->first, first);
    const char* const end = std::min(range->second, last);
    if (begin < end) {
      append_span(spans, static_cast<std::int64_t>(at) + (begin - first),
                  static_cast<std::int64_t>(at) + (end - first));
    }
  }
}

}  // namespace vitrine::jinja
