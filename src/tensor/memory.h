// Where the memory of activations, gradients and caches comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace vitrine {

/// Hands out addresses without memory and counts them: the memory of a run of shapes alone. Each address is handed out
/// once, so values are as distinct as they are in a real run. Nothing may be read or written there.
class CountedMemory {
 public:
  static constexpr std::uintptr_t kFirst = 1 << 20;  ///< The lowest address.

  std::int64_t held_bytes() const { return held_; }
  std::int64_t most_bytes() const { return most_; }  ///< The most that was held at any time.

  std::byte* take(std::int64_t n);
  void give_back(std::int64_t n) { held_ -= n; }

 private:
  std::int64_t held_ = 0, most_ = 0;
  std::uintptr_t next_ = kFirst;
};

struct GiveBack {
  CountedMemory* counted = nullptr;
  std::int64_t size = 0;

  void operator()(std::byte* p) const;
};
using MemoryBlock = std::unique_ptr<std::byte, GiveBack>;

/// `n` bytes, aligned to 64 and uninitialized: of the system, or, with `counted`, addresses without memory. Null where
/// the system refuses.
MemoryBlock take_memory(std::int64_t n, CountedMemory* counted = nullptr);

}  // namespace vitrine
