#include "tensor/zero_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/pages.h"

namespace vitrine {

ZeroMemory::~ZeroMemory() {
  if (data_ != nullptr) ::munmap(data_, static_cast<std::size_t>(size_));
}

void ZeroMemory::swap(ZeroMemory& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

void ZeroMemory::resize(std::int64_t bytes, std::string_view what) {
  if (bytes <= 0) {
    ZeroMemory().swap(*this);
    return;
  }
  const auto size = static_cast<std::size_t>(bytes);
  void* const data = data_ != nullptr
                         ? ::mremap(data_, static_cast<std::size_t>(size_), size, MREMAP_MAYMOVE)
                         : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw OutOfCapacity(what, "cannot allocate {:.1f} GB of memory", static_cast<double>(bytes) / 1e9);
  }
  ::madvise(data, size, MADV_HUGEPAGE);  // fewer address translations; errors are ignored
  data_ = static_cast<std::byte*>(data);
  size_ = bytes;
}

void use_small_pages(std::span<std::byte> memory) {
  const std::span<std::byte> pages = pages_of(memory);
  if (!pages.empty()) ::madvise(pages.data(), pages.size(), MADV_NOHUGEPAGE);  // errors are ignored
}

void give_back(std::span<std::byte> part) {
  const std::span<std::byte> pages = pages_of(part);
  const bool is_given = !pages.empty() && ::madvise(pages.data(), pages.size(), MADV_DONTNEED) == 0;
  std::byte* const first = is_given ? pages.data() : part.data() + part.size();
  std::byte* const end = is_given ? pages.data() + pages.size() : part.data() + part.size();
  std::fill(part.data(), first, std::byte{});
  std::fill(end, part.data() + part.size(), std::byte{});
}

}  // namespace vitrine
