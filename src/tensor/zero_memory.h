// Memory that the system hands out as zeros, page by page when each is first written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vitrine {

class ZeroMemory {
 public:
  ZeroMemory() = default;
  /// Aligned to a page. Throws OutOfCapacity, which names `what` it is for.
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
  /// Keeps what it holds, perhaps at another address; more bytes are zeros. Throws as the constructor does.
  void resize(std::int64_t bytes, std::string_view what);

  std::int64_t size() const { return size_; }
  std::byte* bytes() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace vitrine
