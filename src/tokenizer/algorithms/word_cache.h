// Caches the ids of short words: words repeat, and a lookup is much cheaper than merging again.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/hash.h"

namespace vitrine {

/// A direct-mapped cache of 4 MiB.
class WordCache {
 public:
  static constexpr std::size_t kMaxWordBytes = 30;
  static constexpr std::size_t kMaxIds = 8;

  /// Appends the ids of `word`, which has 1 to kMaxWordBytes bytes, or returns false.
  bool find(std::string_view word, std::vector<std::int32_t>& ids) const {
    const Entry& entry = entries_[index(word)];
    if (entry.n_bytes != word.size() || std::memcmp(entry.bytes.data(), word.data(), word.size()) != 0) return false;
    ids.insert(ids.end(), entry.ids.data(), entry.ids.data() + entry.n_ids);
    return true;
  }

  /// Stores the ids unless there are more than kMaxIds.
  void keep(std::string_view word, std::span<const std::int32_t> ids) {
    if (ids.size() > kMaxIds) return;
    Entry& entry = entries_[index(word)];
    entry.n_bytes = static_cast<std::uint8_t>(word.size());
    entry.n_ids = static_cast<std::uint8_t>(ids.size());
    std::memcpy(entry.bytes.data(), word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

 private:
  static constexpr int kBits = 16;
  struct alignas(64) Entry {   // one cache line
    std::uint8_t n_bytes = 0;  // 0: free
    std::uint8_t n_ids = 0;
    std::array<char, kMaxWordBytes> bytes = {};
    std::array<std::int32_t, kMaxIds> ids = {};
  };
  static_assert(sizeof(Entry) == 64);
  static std::size_t index(std::string_view word) { return hash_bytes(word) >> (64 - kBits); }

  std::vector<Entry> entries_ = std::vector<Entry>(std::size_t{1} << kBits);
};

/// Lends objects of type T to threads and reuses those that were returned.
template <class T>
class ObjectPool {
 public:
  struct GiveBack {
    ObjectPool* pool;
    void operator()(T* object) const noexcept {
      const std::lock_guard lock(pool->mutex_);
      pool->objects_.emplace_back(object);
    }
  };
  /// Holds an object and returns it to the pool at the end of the scope.
  using Lease = std::unique_ptr<T, GiveBack>;

  Lease lease() {
    {
      const std::lock_guard lock(mutex_);
      if (!objects_.empty()) {
        Lease lease(objects_.back().release(), GiveBack{this});
        objects_.pop_back();
        return lease;
      }
      objects_.reserve(objects_.capacity() + 1);  // so that GiveBack does not allocate
    }
    return Lease(new T, GiveBack{this});
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> objects_;
};

}  // namespace vitrine
