// Memory for the values of one pass: taken by moving a pointer, given back all at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tensor/memory.h"
#include "tensor/tensor.h"

namespace vitrine {

/// A stack of memory chunks. Nothing is freed one by one: release(mark()) gives back whatever was taken since the mark,
/// and the chunks stay for the next block or pass. Not for several threads: take the memory before a parallel loop.
class Arena {
 public:
  /// With `counted`, its memory is counted and not there.
  explicit Arena(CountedMemory* counted = nullptr) : counted_(counted) {}

  struct Mark {
    std::size_t chunk = 0;
    std::int64_t used = 0;
  };

  /// Uninitialized. Throws OutOfCapacity where memory is refused.
  Tensor tensor(const Shape& shape) { return {reinterpret_cast<float*>(bytes(bytes_of(shape))), shape}; }

  /// Uninitialized, aligned to 64 bytes.
  std::byte* bytes(std::int64_t n) {
    const std::int64_t room = top_.chunk < chunks_.size() ? chunks_[top_.chunk].size - top_.used : -1;
    if (n > room) make_room(n);  // chunks are whole lines, so what fits, fits in whole lines
    std::byte* const result = chunks_[top_.chunk].data.get() + top_.used;
    top_.used += in_lines(n);
    return result;
  }
  Mark mark() const { return top_; }
  void release(Mark mark) {
    note_top();
    top_ = mark;
  }
  std::int64_t reserved_bytes() const;  ///< What the arena holds of the system.
  std::int64_t touched_bytes() const;   ///< The part of it that has been handed out at some time.

 private:
  struct Chunk {
    MemoryBlock data;
    std::int64_t size = 0;
    std::int64_t touched = 0;
  };

  static constexpr std::int64_t kLine = 64;
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

  static std::int64_t in_lines(std::int64_t n) { return (n + kLine - 1) / kLine * kLine; }
  /// kMost where the size does not fit into a number.
  static std::int64_t bytes_of(const Shape& shape) {
    std::int64_t n = sizeof(float);
    for (const std::int64_t size : shape.sizes()) {
      if (__builtin_mul_overflow(n, size, &n)) return kMost;
    }
    return n;
  }
  void note_top() {
    if (top_.chunk < chunks_.size() && top_.used > chunks_[top_.chunk].touched) chunks_[top_.chunk].touched = top_.used;
  }
  void make_room(std::int64_t n);
  void place_chunk(std::int64_t size);

  CountedMemory* counted_;
  std::vector<Chunk> chunks_;
  Mark top_;
};

/// Gives back at the end of a scope what was taken inside it.
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
