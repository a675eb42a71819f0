#include "base/rng.h"

#include <gtest/gtest.h>

#include <set>

namespace vitrine::test {
namespace {

using Block = std::array<std::uint32_t, 4>;

/// From the authors' library (Random123, kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, IsThePhiloxBlockOfItsKey) {
  const Block bits = philox({0x55667788, 0x11223344, 0xddeeff00, 0x99aabbcc}, {0x89abcdef, 0x01234567});
  const std::uint64_t wide = (std::uint64_t{bits[0]} << 32 | bits[1]) >> 11;
  EXPECT_EQ(uniform(0x0123456789abcdef, 0x99aabbccddeeff00, 0x1122334455667788),
            static_cast<double>(wide) / 9007199254740992.0);
}

TEST(Uniform, IsUniformInItsRange) {
  int bins[16] = {};
  double sum = 0;
  std::set<double> distinct;
  constexpr int kDraws = 64'000;
  for (std::uint64_t step = 0; step < kDraws; ++step) {
    const double u = uniform(42, 7, step);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<int>(u * 16)];
    sum += u;
    distinct.insert(u);
  }
  EXPECT_EQ(distinct.size(), static_cast<std::size_t>(kDraws));
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);  // 4 standard deviations
  for (const int n : bins) EXPECT_NEAR(n, kDraws / 16, 250);
}

TEST(Uniform, DependsOnEachBitOfItsArguments) {
  std::set<double> distinct;
  for (std::uint64_t i = 0; i < 64; ++i) {
    distinct.insert(uniform(std::uint64_t{1} << i, 0, 0));
    distinct.insert(uniform(0, std::uint64_t{1} << i, 0));
    distinct.insert(uniform(0, 0, std::uint64_t{1} << i));
  }
  EXPECT_EQ(distinct.size(), 192u);
}

}  // namespace
}  // namespace vitrine::test
