// Allocation of the memory of activations, gradients and caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace vitrine {

/// The memory of a dry run: counts bytes and returns addresses that must not be accessed. Each address is returned only
/// once, so that values have distinct addresses, as in a real run.
class CountedMemory {
 public:
  static constexpr std::uintptr_t kFirst = 1 << 20;  ///< The lowest address.

  std::int64_t max_bytes() const { return most_; }  ///< The largest number of bytes that were in use at once.

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

/// `n` uninitialized bytes, aligned to 64, from the system, or from `counted` if it is not null. Null if the allocation
/// fails.
MemoryBlock take_memory(std::int64_t n, CountedMemory* counted = nullptr);

/// Returns the pages of allocated memory to the system, whose content is then lost.
void drop_pages(std::span<std::byte> memory);

}  // namespace vitrine
