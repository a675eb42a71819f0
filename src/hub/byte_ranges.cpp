#include "hub/byte_ranges.h"

#include <algorithm>

namespace vitrine {

void ByteRanges::add(ByteRange range) {
  if (range.size() <= 0) return;
  const auto first = std::ranges::find_if(ranges_, [&](const ByteRange& r) { return r.end >= range.begin; });
  auto last = first;
  for (; last != ranges_.end() && last->begin <= range.end; ++last) {
    range.begin = std::min(range.begin, last->begin);
    range.end = std::max(range.end, last->end);
  }
  ranges_.insert(ranges_.erase(first, last), range);
}

std::int64_t ByteRanges::end_of(std::int64_t begin) const {
  for (const ByteRange& r : ranges_) {
    if (r.begin <= begin && begin < r.end) return r.end;
  }
  return begin;
}

std::int64_t ByteRanges::total() const {
  std::int64_t sum = 0;
  for (const ByteRange& r : ranges_) sum += r.size();
  return sum;
}

std::vector<ByteRange> ByteRanges::missing(std::int64_t size, std::int64_t most) const {
  std::vector<ByteRange> pieces;
  const auto add_gap = [&](std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += most) pieces.push_back({begin, std::min(end, begin + most)});
  };
  std::int64_t done = 0;
  for (const ByteRange& r : ranges_) {
    add_gap(done, std::min(r.begin, size));
    done = r.end;
  }
  add_gap(done, size);
  return pieces;
}

}  // namespace vitrine
