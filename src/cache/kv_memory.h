// Allocation of the memory of KV caches: the pages of a paged KV cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "tensor/memory.h"

namespace vitrine {

/// An allocator. Memory is reference-counted, because caches share it.
class KvMemory {
 public:
  virtual ~KvMemory() = default;
  /// `n` uninitialized bytes, aligned to 64; null if there is not enough memory.
  virtual std::shared_ptr<std::byte> take(std::int64_t n) = 0;
  /// The number of bytes that take() can still return, if there is a limit.
  virtual std::int64_t free_bytes() const { return std::numeric_limits<std::int64_t>::max(); }
  /// The number of positions in a block of keys and values. Attention reads a head's rows of a block as one stream,
  /// so short blocks slow it down: after 4,096 tokens, 64 positions cost a sixth of the speed of decoding.
  virtual std::int64_t block_length() const;
};

/// The system's allocator, without a limit.
KvMemory& system_kv_memory();

/// Addresses without memory, for dry runs.
class CountedKvMemory : public KvMemory {
 public:
  CountedKvMemory() = default;  ///< With blocks as long as the system's.
  explicit CountedKvMemory(std::int64_t block_length) : block_length_(block_length) {}

  std::shared_ptr<std::byte> take(std::int64_t n) override { return take_memory(n, &counted_); }
  std::int64_t block_length() const override { return block_length_; }

 private:
  std::int64_t block_length_ = system_kv_memory().block_length();
  CountedMemory counted_;
};

/// The system's allocator with a limit, which all caches of a server share. Memory is counted until the last of its
/// owners releases it, which may be after the pool's end.
class KvPool : public KvMemory {
 public:
  explicit KvPool(std::int64_t capacity_bytes);  ///< With blocks as long as the system's.
  KvPool(std::int64_t capacity_bytes, std::int64_t block_length)
      : capacity_(capacity_bytes), block_length_(block_length), used_(std::make_shared<std::atomic<std::int64_t>>(0)) {}

  std::shared_ptr<std::byte> take(std::int64_t n) override;
  std::int64_t block_length() const override { return block_length_; }
  std::int64_t capacity_bytes() const { return capacity_; }
  std::int64_t used_bytes() const { return *used_; }
  std::int64_t free_bytes() const override { return capacity_ - *used_; }

 private:
  std::int64_t capacity_, block_length_;
  std::shared_ptr<std::atomic<std::int64_t>> used_;
};

}  // namespace vitrine
