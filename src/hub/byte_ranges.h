// Sets of ranges of bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vitrine {

/// The bytes from `begin` to before `end`.
struct ByteRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// Ranges in ascending order that neither overlap nor touch.
class ByteRanges {
 public:
  void add(ByteRange range);
  void clear() { ranges_.clear(); }
  /// The end of the range that `begin` is in; `begin` if it is in none.
  std::int64_t end_of(std::int64_t begin) const;
  /// The number of bytes in all ranges.
  std::int64_t total() const;
  /// What is missing of the first `size` bytes, in pieces of at most `most` bytes.
  std::vector<ByteRange> missing(std::int64_t size, std::int64_t most) const;
  std::span<const ByteRange> all() const { return ranges_; }

 private:
  std::vector<ByteRange> ranges_;
};

}  // namespace vitrine
