// Where the memory of KV caches comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensor/memory.h"

namespace vitrine {

/// Blocks are reference-counted, so that an implementation may share them between caches.
class KvMemory {
 public:
  virtual ~KvMemory() = default;
  /// `n` bytes, aligned to 64 and uninitialized; null where there are no more.
  virtual std::shared_ptr<std::byte> take(std::int64_t n) = 0;
};

/// The system's, without a bound.
KvMemory& system_kv_memory();

/// Addresses without memory, for a run of shapes alone.
class CountedKvMemory : public KvMemory {
 public:
  std::shared_ptr<std::byte> take(std::int64_t n) override { return take_memory(n, &counted_); }

 private:
  CountedMemory counted_;
};

}  // namespace vitrine
