// An arena for the values of a pass: allocation moves a pointer, and memory is released all at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tensor/memory.h"
#include "tensor/tensor.h"

namespace vitrine {

/// A stack of memory chunks. release(mark) frees everything allocated since the mark, but keeps the chunks for the next
/// block or pass. Not thread-safe: allocate before a parallel loop.
class Arena {
 public:
  /// With `counted` (a dry run), memory is counted but not allocated.
  explicit Arena(CountedMemory* counted = nullptr) : counted_(counted) {}

  struct Mark {
    std::size_t chunk = 0;
    std::int64_t used = 0;
  };

  /// Uninitialized. Throws OutOfCapacity if the allocation fails.
  Tensor tensor(const Shape& shape) { return {reinterpret_cast<float*>(bytes(bytes_of(shape))), shape}; }

  /// Uninitialized, aligned to 64 bytes.
  std::byte* bytes(std::int64_t n) {
    const std::int64_t free = top_.chunk < chunks_.size() ? chunks_[top_.chunk].size - top_.used : -1;
    if (n > free) next_chunk(n);  // chunks consist of whole cache lines, so n fits after rounding, too
    std::byte* const result = chunks_[top_.chunk].data.get() + top_.used;
    top_.used += in_lines(n);
    return result;
  }
  Mark mark() const { return top_; }
  void release(Mark mark) {
    note_top();
    top_ = mark;
  }
  /// Returns the memory of what has been released to the system. The chunks remain.
  void drop_released() const;
  std::int64_t reserved_bytes() const;  ///< Bytes that the arena has allocated from the system.
  std::int64_t touched_bytes() const;   ///< The part of these that has been in use at some time.

 private:
  struct Chunk {
    MemoryBlock data;
    std::int64_t size = 0;
    std::int64_t touched = 0;
  };

  static constexpr std::int64_t kLine = 64;
  static constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

  static std::int64_t in_lines(std::int64_t n) { return (n + kLine - 1) / kLine * kLine; }
  /// Returns kMax on overflow.
  static std::int64_t bytes_of(const Shape& shape) {
    std::int64_t n = sizeof(float);
    for (const std::int64_t size : shape.sizes()) {
      if (__builtin_mul_overflow(n, size, &n)) return kMax;
    }
    return n;
  }
  void note_top() {
    if (top_.chunk < chunks_.size() && top_.used > chunks_[top_.chunk].touched) chunks_[top_.chunk].touched = top_.used;
  }
  void next_chunk(std::int64_t n);
  void place_chunk(std::int64_t size);

  CountedMemory* counted_;
  std::vector<Chunk> chunks_;
  Mark top_;
};

/// Releases, at the end of a scope, the memory that was allocated inside the scope.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;
  ~ArenaScope() { arena_.release(mark_); }

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace vitrine
