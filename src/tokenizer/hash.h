// Fast hashes for tables in memory. They are not stable across versions, and an adversary can construct collisions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace vitrine {

/// The finalizer of MurmurHash3 (Austin Appleby, public domain).
inline std::uint64_t hash_number(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDULL;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53ULL;
  return x ^ (x >> 33);
}

/// Folds in eight bytes at a time with a 64 × 64 → 128-bit product.
inline std::uint64_t hash_bytes(std::string_view bytes) {
  const auto fold = [](std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  std::uint64_t hash = 0x9E3779B97F4A7C15ULL ^ bytes.size();
  const char* p = bytes.data();
  std::size_t n = bytes.size();
  for (; n >= 8; p += 8, n -= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    hash = fold(hash ^ word, 0xD6E8FEB86659FD93ULL);
  }
  std::uint64_t rest = 0;
  if (n != 0) std::memcpy(&rest, p, n);
  return fold(hash ^ rest, 0xA0761D6478BD642FULL);
}

}  // namespace vitrine
