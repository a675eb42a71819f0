// Allocation of the memory of KV caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensor/memory.h"

namespace vitrine {

/// An allocator. Blocks are reference-counted, so that an implementation may share them between caches.
class KvMemory {
 public:
  virtual ~KvMemory() = default;
  /// `n` uninitialized bytes, aligned to 64; null if there is not enough memory.
  virtual std::shared_ptr<std::byte> take(std::int64_t n) = 0;
};

/// The system's allocator, without a limit.
KvMemory& system_kv_memory();

/// Addresses without memory, for dry runs.
class CountedKvMemory : public KvMemory {
 public:
  std::shared_ptr<std::byte> take(std::int64_t n) override { return take_memory(n, &counted_); }

 private:
  CountedMemory counted_;
};

}  // namespace vitrine
