#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/rng.h"

namespace vitrine::test {
namespace {

TEST(Arena, IsInitiallyEmpty) { EXPECT_EQ(Arena().reserved_bytes(), 0); }

TEST(Arena, AllocationsAreAlignedAndDoNotOverlap) {
  Arena arena;
  std::vector<std::pair<std::byte*, std::int64_t>> taken;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const auto n = static_cast<std::int64_t>(uniform(1, 0, i) * (i % 10 == 0 ? 200'000 : 3'000));
    std::byte* p = arena.bytes(n);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0u);
    std::memset(p, static_cast<int>(i % 251), static_cast<std::size_t>(n));
    taken.emplace_back(p, n);
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto [p, n] = taken[i];
    for (std::int64_t k = 0; k < n; ++k) ASSERT_EQ(p[k], static_cast<std::byte>(i % 251)) << "block " << i;
  }
}

TEST(Arena, ReleasedMemoryIsReused) {
  Arena arena;
  arena.bytes(100);
  const Arena::Mark mark = arena.mark();
  std::byte* const first = arena.bytes(1000);
  arena.bytes(1'000'000);
  arena.release(mark);
  EXPECT_EQ(arena.bytes(1000), first);
}

TEST(Arena, ScopesNest) {
  Arena arena;
  const ArenaScope outer(arena);
  float* const kept = arena.tensor({10}).data;
  float* inner_data = nullptr;
  {
    const ArenaScope inner(arena);
    inner_data = arena.tensor({10}).data;
    EXPECT_NE(inner_data, kept);
  }
  EXPECT_EQ(arena.tensor({10}).data, inner_data);
}

TEST(Arena, RepeatedScopesDoNotGrowIt) {
  Arena arena;
  const auto pass = [&](std::int64_t scale) {
    const ArenaScope scope(arena);
    arena.bytes(50'000 * scale);
    for (int block = 0; block < 5; ++block) {
      const ArenaScope inner(arena);
      for (std::int64_t n : {70'000, 10, 300'000, 64, 0, 1}) arena.bytes(n * scale);
    }
  };
  pass(1);
  const std::int64_t once = arena.reserved_bytes();
  for (int i = 0; i < 1000; ++i) pass(1);
  EXPECT_EQ(arena.reserved_bytes(), once);
  EXPECT_LE(once, 4 * (50'000 + 370'075)) << "a small multiple of one pass";
  pass(3);
  const std::int64_t larger = arena.reserved_bytes();
  for (int i = 0; i < 1000; ++i) pass(1 + i % 3);
  EXPECT_EQ(arena.reserved_bytes(), larger);
}

TEST(Arena, EmptyTensorsHaveAnAddress) {
  Arena arena;
  EXPECT_NE(arena.tensor({0, 5}).data, nullptr);
  EXPECT_EQ(arena.tensor({0, 5}).count(), 0);
}

TEST(Arena, ThrowsForImpossibleSizes) {
  Arena arena;
  constexpr std::int64_t kLarge = std::int64_t{1} << 31;
  EXPECT_THROW(arena.tensor({kLarge, kLarge}), OutOfCapacity) << "2^64 bytes: not a small number";
  EXPECT_THROW(arena.tensor({kLarge, kLarge, kLarge}), OutOfCapacity);
  EXPECT_THROW(arena.tensor({std::int64_t{1} << 47}), OutOfCapacity);
  EXPECT_THROW(arena.bytes(std::numeric_limits<std::int64_t>::max()), OutOfCapacity);
  EXPECT_EQ(arena.tensor({3}).count(), 3) << "it remains usable";
}

}  // namespace
}  // namespace vitrine::test
