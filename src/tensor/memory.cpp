#include "tensor/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/pages.h"

namespace vitrine {
namespace {

constexpr std::int64_t kLine = 64;

}  // namespace

std::byte* CountedMemory::take(std::int64_t n) {
  held_ += n;
  most_ = std::max(most_, held_);
  auto* const result = reinterpret_cast<std::byte*>(next_);
  next_ += static_cast<std::uintptr_t>(n);
  return result;
}

void GiveBack::operator()(std::byte* p) const {
  if (counted != nullptr) return counted->give_back(size);
  std::free(p);
}

MemoryBlock take_memory(std::int64_t n, CountedMemory* counted) {
  if (n > std::numeric_limits<std::int64_t>::max() - kLine) return {};
  const std::int64_t size = std::max(kLine, (n + kLine - 1) / kLine * kLine);
  if (counted != nullptr) return {counted->take(size), {counted, size}};
  return {static_cast<std::byte*>(std::aligned_alloc(kLine, static_cast<std::size_t>(size))), {nullptr, size}};
}

void drop_pages(std::span<std::byte> memory) {
  const std::span<std::byte> pages = pages_of(memory);
  if (!pages.empty()) ::madvise(pages.data(), pages.size(), MADV_DONTNEED);  // errors are ignored
}

}  // namespace vitrine
