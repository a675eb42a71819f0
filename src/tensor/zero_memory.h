// Zero-filled memory, which the system allocates page by page when a page is first written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace vitrine {

class ZeroMemory {
 public:
  ZeroMemory() = default;
  /// Aligned to a page. Throws OutOfCapacity if the allocation fails; the error names `what`, the purpose of the
  /// memory.
  ZeroMemory(std::int64_t bytes, std::string_view what) { resize(bytes, what); }
  ZeroMemory(const ZeroMemory&) = delete;
  ZeroMemory& operator=(const ZeroMemory&) = delete;
  ZeroMemory(ZeroMemory&& other) noexcept { swap(other); }
  ZeroMemory& operator=(ZeroMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~ZeroMemory();

  void swap(ZeroMemory& other) noexcept;
  /// Keeps the contents, but may move them to another address; additional bytes are zero. Throws as the constructor
  /// does.
  void resize(std::int64_t bytes, std::string_view what);

  std::int64_t size() const { return size_; }
  std::byte* bytes() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
};

/// For memory whose parts are given back: its pages become the smallest that the system has. Call it before anything is
/// written.
void use_small_pages(std::span<std::byte> memory);
/// Sets a part of a ZeroMemory to zero. The pages inside it return to the system until they are written again.
void give_back(std::span<std::byte> part);

}  // namespace vitrine
