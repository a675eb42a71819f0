// Pages of memory, the units in which the system takes it back.
#pragma once

#include <unistd.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vitrine {

/// The whole pages inside `memory`.
template <class Byte>
std::span<Byte> pages_of(std::span<Byte> memory) {
  static const auto kPage = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = std::bit_cast<std::uintptr_t>(memory.data()), end = begin + memory.size();
  const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage, last = end / kPage * kPage;
  return first < last ? memory.subspan(first - begin, last - first) : memory.first(0);
}

}  // namespace vitrine
