// The memory of a rendering: values are never freed one by one, but all at once, and their size is bounded.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory_resource>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "template/error.h"

namespace vitrine::jinja {

/// Owns the values of a template, of its input or of one rendering. No destructor of a value runs, so values keep all
/// their memory here.
class Heap {
 public:
  /// Throws TemplateError ("limit") once more than `limit` bytes are allocated.
  explicit Heap(std::size_t limit) : blocks_(limit), memory_(&blocks_) {}

  template <class T, class... Args>
  T* make(Args&&... args) {
    return new (memory_.allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
  }
  char* bytes(std::size_t size) { return static_cast<char*>(memory_.allocate(size, 1)); }
  std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* const place = bytes(text.size());
    std::memcpy(place, text.data(), text.size());
    return {place, text.size()};
  }
  /// Throws if `size` more bytes would pass the limit: for text that is made elsewhere first.
  void check(std::size_t size) const { blocks_.check(size); }
  std::pmr::memory_resource* resource() { return &memory_; }
  /// The memory that values lie in: addresses [begin, end).
  const std::vector<std::pair<const char*, const char*>>& blocks() const { return blocks_.blocks; }

 private:
  class Blocks final : public std::pmr::memory_resource {
   public:
    explicit Blocks(std::size_t limit) : limit_(limit) {}
    void check(std::size_t size) const {
      if (size > limit_ - used_) throw error("limit", "expected at most {} bytes of values, got more", limit_);
    }

    std::vector<std::pair<const char*, const char*>> blocks;

   private:
    void* do_allocate(std::size_t size, std::size_t alignment) override {
      check(size);
      used_ += size;
      void* const place = std::pmr::new_delete_resource()->allocate(size, alignment);
      const char* const begin = static_cast<const char*>(place);
      blocks.emplace_back(begin, begin + size);
      return place;
    }
    void do_deallocate(void* place, std::size_t size, std::size_t alignment) override {
      std::pmr::new_delete_resource()->deallocate(place, size, alignment);
    }
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
    std::size_t limit_;
    std::size_t used_ = 0;
  };

  Blocks blocks_;
  std::pmr::monotonic_buffer_resource memory_;
};

}  // namespace vitrine::jinja
