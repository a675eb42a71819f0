// Memory for the values of one pass: taken by moving a pointer, given back all at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace vitrine {

/// A stack of memory chunks. Nothing is freed one by one: release(mark()) gives back whatever was taken since the mark,
/// and the chunks stay for the next block or pass. Not for several threads: take the memory before a parallel loop.
class Arena {
 public:
  struct Mark {
    std::size_t chunk = 0;
    std::int64_t used = 0;
  };

  Tensor tensor(const Shape& shape);  ///< Uninitialized. Throws OutOfCapacity where memory is refused.
  std::byte* bytes(std::int64_t n);   ///< Uninitialized, aligned to 64 bytes.
  Mark mark() const { return top_; }
  void release(Mark mark) { top_ = mark; }
  std::int64_t reserved_bytes() const;  ///< What the arena holds of the system.

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  struct Chunk {
    std::unique_ptr<std::byte, Free> data;
    std::int64_t size = 0;
  };

  void place_chunk(std::int64_t size);

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
